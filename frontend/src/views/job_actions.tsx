/** Actions on a job, if allowed: confirmed first, and made with the user's own permissions. */

import { useRef, useState } from "preact/hooks";
import { ApiError, post, type Schemas } from "../api/client";

type Detail = Schemas["JobDetail"];
type Action = Detail["allowed"][number];

const TEXTS: Readonly<Record<Action, { button: string; question: string }>> = {
  cancel: { button: "Cancel job", question: "This deletes all its pods and cannot be undone." },
  hold: { button: "Hold", question: "Its pending pods do not start until it is released. Pods on nodes keep running." },
  release: { button: "Release", question: "Its pods may start again." },
  reprioritise: { button: "Change priority", question: "Its pending pods get this priority class." },
};

export function JobActions(props: { detail: Detail; onActed: () => void }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const [said, setSaid] = useState("");
  const dialog = useRef<HTMLDialogElement>(null);
  const priority = useRef<HTMLInputElement>(null);
  const { allowed, job } = props.detail;
  if (allowed.length === 0) return null;
  const ask = (action: Action): void => {
    setAsked(action);
    dialog.current?.showModal();
  };
  const act = async (): Promise<void> => {
    dialog.current?.close();
    if (!asked) return;
    const wanted = asked === "reprioritise" ? { priorityClass: priority.current?.value ?? "" } : {};
    try {
      const answer = await post("/api/v1/actions/{job}", { action: asked, ...wanted }, { path: { job: job.job } });
      setSaid(answer.text);
      props.onActed();
    } catch (error) {
      setSaid(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <div class="filters">
      {allowed.map((action) => (
        <button key={action} type="button" onClick={() => ask(action)}>{TEXTS[action].button}</button>
      ))}
      <span role="status">{said}</span>
      <dialog ref={dialog} aria-label={asked ? TEXTS[asked].button : "Action"}>
        {asked ? (
          <form method="dialog" class="stack">
            <h2>{TEXTS[asked].button}: {job.job}</h2>
            <p>{TEXTS[asked].question}</p>
            {asked === "reprioritise" ? (
              <label class="labelled"><span>PriorityClass</span> <input type="text" ref={priority} required /></label>
            ) : null}
            <div class="filters">
              <button type="button" class="primary" onClick={() => void act()}>{TEXTS[asked].button}</button>
              <button type="submit">Back</button>
            </div>
          </form>
        ) : null}
      </dialog>
    </div>
  );
}
