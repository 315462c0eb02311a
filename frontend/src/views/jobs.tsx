/** All jobs: filtered, grouped and sorted by the server; the address holds what is shown. */

import { useLink } from "../api/use";
import { go, href, useQuery } from "../app/route";
import { count, plural } from "../format/amounts";
import { between, clock, dateTime, duration, readable } from "../format/time";
import { Empty, Loading, Problem, Tag, View } from "../ui/basics";
import { Meter } from "../ui/bars";
import { Chips, Facet, SearchBox } from "../ui/filter";
import { Grid, type Column } from "../ui/grid";
import { useJobRows, type JobRow, type JobRows } from "./job_rows";

const FACETS = ["state", "queue", "namespace", "reason"] as const;
const TITLES = { state: "State", queue: "Queue", namespace: "Namespace", reason: "Reason", label: "Label" } as const;

export function jobPath(job: string): string[] {
  const at = job.indexOf("/");
  return ["jobs", job.slice(0, at), job.slice(at + 1)];
}

/** The word for a row's state: what is most worth knowing. */
export function stateOf(row: JobRow): string {
  if (row.state === "finished") return row.outcome && row.outcome !== "succeeded" ? row.outcome : "finished";
  if (row.held) return "held";
  return row.starving && row.state === "waiting" ? "starving" : row.state;
}

export function JobsView() {
  const [query, change] = useQuery();
  const link = useLink();
  const sort = query.get("sort") ?? "order";
  const group = query.get("group") ?? "";
  const rows = useJobRows({
    ...Object.fromEntries([...FACETS, "label"].map((name) => [name, query.getAll(name)])),
    search: query.get("search"), sort, group,
  });
  const clear = (): void => change({ state: null, queue: null, namespace: null, reason: null, label: null, search: null });
  const chips = [...FACETS, "label" as const].flatMap((name) =>
    query.getAll(name).map((value) => ({
      key: `${name}=${value}`,
      text: `${TITLES[name].toLowerCase()}: ${value || "(none)"}`,
      remove: () => change({ [name]: query.getAll(name).filter((one) => one !== value) }),
    })),
  );
  const filtered = chips.length > 0 || query.has("search");
  return (
    <View title="Jobs" note={<Counts />}>
      <div class="filters">
        <SearchBox label="Find jobs by name" value={query.get("search") ?? ""} onChange={(search) => change({ search })} />
        {FACETS.map((name) => (
          <Facet
            key={name}
            title={TITLES[name]}
            options={rows.facets?.[name] ?? []}
            chosen={query.getAll(name)}
            onChange={(chosen) => change({ [name]: chosen })}
          />
        ))}
        <LabelFilter keys={rows.facets?.labels ?? []} add={(label) => change({ label: [...query.getAll("label"), label] })} />
        <GroupBy value={group} labels={rows.facets?.labels ?? []} onChange={(value) => change({ group: value })} />
      </div>
      <Chips chips={chips} clear={clear} />
      {rows.error ? <Problem error={rows.error} retry={rows.reload} what="The jobs" /> : null}
      {group && rows.groups ? <Groups group={group} rows={rows} choose={(patch) => change(patch)} /> : null}
      {rows.total === null ? (
        rows.error ? null : <Loading what="jobs" />
      ) : (
        <Grid
          label={`Jobs, ${plural(rows.total, "row")}`}
          columns={columns(link.now)}
          count={rows.total}
          rowAt={rows.rowAt}
          keyOf={(row) => row.job}
          onRange={rows.onRange}
          onOpen={(row) => go(href(jobPath(row.job)))}
          sort={sort}
          onSort={(value) => change({ sort: value })}
          below={{ column: "reason", cell: (row) => <Below row={row} /> }}
          most={40}
          empty={<NoJobs filtered={filtered} clear={clear} />}
        />
      )}
    </View>
  );
}

function Counts() {
  const { summary } = useLink();
  if (!summary) return null;
  const { waiting, starting, running, finished } = summary.jobs;
  const parts = [`${count(waiting ?? 0)} waiting`, `${count(running ?? 0)} running`, `${count(finished ?? 0)} finished`];
  if (starting) parts.splice(1, 0, `${count(starting)} starting`);
  return <>{parts.join(" · ")}</>;
}

function NoJobs(props: { filtered: boolean; clear: () => void }) {
  if (!props.filtered) {
    return (
      <div class="panel">
        <Empty title="No jobs">In another terminal: <code>fairway apply -f examples/sandbox/gang.yaml</code></Empty>
      </div>
    );
  }
  return (
    <div class="panel">
      <Empty title="No job passes these filters">
        <button type="button" onClick={props.clear}>Clear all filters</button>
      </Empty>
    </div>
  );
}

function columns(now: string): Column<JobRow>[] {
  return [
    { key: "job", title: "Job", width: 160, grow: 1.2, sort: "job", cell: (row) => <JobLink job={row.job} inGrid /> },
    { key: "state", title: "State", width: 98, sort: "state", cell: (row) => <Tag state={stateOf(row)} /> },
    { key: "queue", title: "Queue", width: 96, grow: 0.3, drop: 4, sort: "queue", cell: (row) => row.queue },
    { key: "namespace", title: "Namespace", width: 88, grow: 0.3, drop: 6, sort: "namespace", cell: (row) => row.namespace },
    { key: "position", title: "Pos.", width: 54, align: "end", drop: 5, sort: "position", cell: (row) => (row.position ? count(row.position) : "") },
    { key: "pods", title: "Pods", width: 54, align: "end", drop: 3, sort: "pods", cell: podsText },
    { key: "for", title: "For", width: 74, align: "end", sort: "waiting", cell: (row) => <Passed row={row} now={now} /> },
    { key: "start", title: "Est. start", width: 84, align: "end", drop: 2, sort: "estimatedStart", cell: (row) => <Start row={row} now={now} /> },
    { key: "reason", title: "Reason", width: 240, grow: 4, drop: 1, sort: "reason", cell: (row) => <Reason row={row} /> },
  ];
}

/** In a grid, which has one tab stop, Enter opens a row; elsewhere the link is a stop of its own. */
export function JobLink(props: { job: string; inGrid?: boolean }) {
  const [, namespace, name] = jobPath(props.job);
  return (
    <a href={href(jobPath(props.job))} title={props.job} tabIndex={props.inGrid ? -1 : undefined}>
      <span class="job-namespace soft">{namespace}/</span>
      {name}
    </a>
  );
}

function podsText(row: JobRow): string {
  const placed = row.placed ?? 0;
  return row.state === "running" && placed !== row.pods ? `${count(placed)}/${count(row.pods)}` : count(row.pods);
}

function Passed(props: { row: JobRow; now: string }) {
  const { row, now } = props;
  if (row.state === "finished") {
    const ran = between(row.started, row.ended);
    return <span title={`ended ${dateTime(row.ended)}`}>{duration(ran)}</span>;
  }
  const since = row.state === "running" ? (row.started ?? row.created) : row.created;
  return <span title={`since ${dateTime(since)}`}>{duration(Math.max(0, between(since, now) ?? 0))}</span>;
}

function Start(props: { row: JobRow; now: string }) {
  const start = props.row.plannedStart ?? props.row.estimatedStart;
  if (!start || props.row.state !== "waiting") return null;
  const left = between(props.now, start) ?? 0;
  const kind = props.row.plannedStart ? "planned start" : "estimated start";
  return (
    <span title={`${kind} ${dateTime(start)}`}>
      {props.row.plannedStart ? "" : "~"}
      {left < 86_400 ? clock(start).slice(0, 5) : start.slice(5, 10)}
    </span>
  );
}

function Reason(props: { row: JobRow }) {
  const { row } = props;
  if (!row.reason) return null;
  return (
    <span title={row.message}>
      <b class="reason">{row.reason}</b> <span class="soft">{readable(row.message ?? "")}</span>
    </span>
  );
}

function Below(props: { row: JobRow }) {
  const { row } = props;
  return row.reason ? <Reason row={row} /> : <>{row.queue} · {plural(row.pods, "pod")}</>;
}

function LabelFilter(props: { keys: readonly string[]; add: (label: string) => void }) {
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

function GroupBy(props: { value: string; labels: readonly string[]; onChange: (value: string) => void }) {
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

function Groups(props: { group: string; rows: JobRows; choose: (patch: Record<string, string[]>) => void }) {
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
