/** What-if questions: a list of supposed changes, and the difference they make. */

import { useState } from "preact/hooks";
import { ApiError, post, type Schemas } from "../api/client";
import { Choice, Empty, Panel, View } from "../ui/basics";
import { ChangeForm } from "./change_form";
import { said, secondsOf, type Change } from "./supposed";
import { WhatIfDifference } from "./what_if_answer";

type Answer = Schemas["WhatIfAnswer"];
type Mode = Answer["mode"];

export function WhatIfView() {
  const [changes, setChanges] = useState<readonly Change[]>([]);
  const [mode, setMode] = useState<Mode>("decide");
  const [horizon, setHorizon] = useState("1d");
  const [state, setState] = useState<{ answer: Answer | null; error: string; busy: boolean }>({ answer: null, error: "", busy: false });
  const ask = async (): Promise<void> => {
    setState({ ...state, error: "", busy: true });
    try {
      const answer = await post("/api/v1/what-if", { changes, mode, horizonSeconds: secondsOf(horizon) ?? 86_400 });
      setState({ answer, error: "", busy: false });
    } catch (error) {
      setState({ answer: null, error: error instanceof ApiError ? error.message : String(error), busy: false });
    }
  };
  return (
    <View title="What if" note="Computed on a copy. Nothing is changed.">
      <div class="columns what-if">
        <Panel title="Add a change">
          <ChangeForm onAdd={(change) => setChanges([...changes, change])} />
        </Panel>
        <Panel title="Changes" note={changes.length ? `${changes.length}, applied together` : undefined}>
          <div class="stack">
            {changes.length === 0 ? <p class="soft">None yet. Several changes are made together.</p> : null}
            <ol class="changes">
              {changes.map((change, index) => (
                <li key={index}>
                  {said(change)}{" "}
                  <button type="button" class="plain" aria-label={`Remove: ${said(change)}`} onClick={() => setChanges(changes.filter((_, at) => at !== index))}>Remove</button>
                </li>
              ))}
            </ol>
            <div class="filters">
              <Choice label="How" options={[["decide", "Next cycle"], ["simulate", "Simulate"]]} value={mode} onChange={setMode} />
              {mode === "simulate" ? (
                <label class="labelled"><span>for</span><input type="text" class="short" value={horizon} onInput={(event) => setHorizon(event.currentTarget.value)} /></label>
              ) : null}
              <button type="button" class="primary" disabled={changes.length === 0 || state.busy} onClick={() => void ask()}>
                {state.busy ? "Computing …" : "Show the difference"}
              </button>
            </div>
            {state.error ? <div class="banner bad" role="alert">{state.error}</div> : null}
          </div>
        </Panel>
      </div>
      <div aria-live="polite" class="stack">
        {state.answer ? <WhatIfDifference answer={state.answer} /> : state.error ? null : (
          <div class="panel"><Empty title="No question yet">Add a change, then ask for the difference: it is decided on a copy and shown here.</Empty></div>
        )}
      </div>
    </View>
  );
}
