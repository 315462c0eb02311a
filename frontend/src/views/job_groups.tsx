/** Jobs by label and by group: what to filter and to group by, and the counts of each group. */

import { count } from "../format/amounts";
import { Meter } from "../ui/bars";
import type { JobRows } from "./job_rows";

export const FACETS = ["state", "queue", "namespace", "reason"] as const;
export const TITLES = { state: "State", queue: "Queue", namespace: "Namespace", reason: "Reason", label: "Label" } as const;

export function LabelFilter(props: { keys: readonly string[]; add: (label: string) => void }) {
  if (props.keys.length === 0) return null;
  const added = (event: Event & { currentTarget: HTMLFormElement }): void => {
    event.preventDefault();
    const field = event.currentTarget.elements.namedItem("label") as HTMLInputElement;
    if (field.value.trim()) props.add(field.value.trim());
    field.value = "";
  };
  return (
    <form onSubmit={added}>
      <input type="text" name="label" class="label-field" aria-label="Filter by label, as key=value; Enter adds it" placeholder="label=value" list="label-keys" />
      <datalist id="label-keys">{props.keys.map((key) => <option key={key} value={`${key}=`} />)}</datalist>
    </form>
  );
}

export function GroupBy(props: { value: string; labels: readonly string[]; onChange: (value: string) => void }) {
  return (
    <label class="labelled">
      <span>Group by</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">nothing</option>
        {FACETS.map((name) => <option key={name} value={name}>{TITLES[name].toLowerCase()}</option>)}
        {props.labels.map((key) => <option key={key} value={`label:${key}`}>label {key}</option>)}
      </select>
    </label>
  );
}

export function Groups(props: { group: string; rows: JobRows; choose: (patch: Record<string, string[]>) => void }) {
  const groups = props.rows.groups ?? [];
  const most = Math.max(1, ...groups.map((one) => one.count));
  const filter = props.group.startsWith("label:") ? "label" : props.group;
  const key = props.group.slice("label:".length);
  const valueOf = (value: string): string => (filter === "label" ? `${key}=${value}` : value);
  return (
    <div class="panel table-frame" tabIndex={0} role="region" aria-label={`Jobs by ${props.group}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{filter === "label" ? key : TITLES[filter as keyof typeof TITLES]}</th>
            <th scope="col" class="wide">Jobs</th>
            <th scope="col" class="number">Waiting</th>
            <th scope="col" class="number">Running</th>
            <th scope="col" class="number">Finished</th>
            <th scope="col" class="number">Pods</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((one) => (
            <tr key={one.value}>
              <th scope="row">
                <button type="button" class="plain group-value" onClick={() => props.choose({ [filter]: [valueOf(one.value)] })}>
                  {one.value || "(none)"}
                </button>
              </th>
              <td><Meter part={one.count / most} label={one.value} text={count(one.count)} /></td>
              <td class="number">{count(one.waiting)}</td>
              <td class="number">{count(one.running + one.starting)}</td>
              <td class="number">{count(one.finished)}</td>
              <td class="number">{count(one.pods)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
