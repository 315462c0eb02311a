/** The form of one change; which fields it has depends on its kind. */

import { useState } from "preact/hooks";
import { useGet } from "../api/use";
import { FORMS, STARTING, toChange, type Change, type Field, type Kind } from "./supposed";

export function ChangeForm(props: { onAdd: (change: Change) => void }) {
  const [kind, setKind] = useState<Kind>("submitForm");
  const [values, setValues] = useState<Readonly<Record<string, string>>>(STARTING.submitForm ?? {});
  const [problem, setProblem] = useState("");
  const choose = (next: Kind): void => {
    setKind(next);
    setValues(STARTING[next] ?? {});
    setProblem("");
  };
  const add = (event: Event): void => {
    event.preventDefault();
    const change = toChange(kind, values);
    if (typeof change === "string") {
      setProblem(change);
      return;
    }
    setProblem("");
    props.onAdd(change);
  };
  return (
    <form class="change-form" onSubmit={add} noValidate>
      <label>
        <span>Change</span>
        <select value={kind} onChange={(event) => choose(event.currentTarget.value as Kind)}>
          {(Object.keys(FORMS) as Kind[]).map((name) => <option key={name} value={name}>{FORMS[name].title}</option>)}
        </select>
      </label>
      {FORMS[kind].fields.map((field) => (
        <FieldInput key={kind + field.name} field={field} value={values[field.name] ?? ""} onChange={(text) => setValues({ ...values, [field.name]: text })} />
      ))}
      {problem ? <p class="problem" role="alert">{problem}</p> : null}
      <div><button type="submit">Add</button></div>
      <Suggestions />
    </form>
  );
}

function FieldInput(props: { field: Field; value: string; onChange: (text: string) => void }) {
  const { field, value } = props;
  const typed = (event: { currentTarget: { value: string } }): void => props.onChange(event.currentTarget.value);
  return (
    <label class={field.kind === "area" ? "tall" : undefined}>
      <span>{field.label}</span>
      {field.kind === "area" ? (
        <textarea rows={10} spellcheck={false} value={value} onInput={typed} />
      ) : (
        <input
          type={field.kind === "number" ? "number" : "text"}
          min={field.kind === "number" ? 1 : undefined}
          value={value}
          placeholder={field.hint}
          list={field.list ? `known-${field.list}` : undefined}
          onInput={typed}
        />
      )}
    </label>
  );
}

/** Existing names, suggested while typing. */
function Suggestions() {
  const queues = useGet("/api/v1/queues").data?.queues ?? [];
  const nodes = useGet("/api/v1/nodes").data?.names ?? [];
  const jobs = useGet("/api/v1/jobs", { query: { limit: 200 } }).data?.rows ?? [];
  const namespaces = new Set(queues.flatMap((queue) => queue.namespaces.map((one) => one.namespace)));
  const lists: readonly (readonly [string, readonly string[]])[] = [
    ["queues", queues.map((queue) => queue.name)],
    ["namespaces", [...namespaces].sort()],
    ["nodes", nodes.slice(0, 500)],
    ["jobs", jobs.map((job) => job.job)],
  ];
  return (
    <>
      {lists.map(([name, values]) => (
        <datalist key={name} id={`known-${name}`}>{values.map((value) => <option key={value} value={value} />)}</datalist>
      ))}
    </>
  );
}
