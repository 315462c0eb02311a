/** The columns of the table of jobs, and how a job and its state are named everywhere. */

import { href } from "../app/route";
import { count, plural } from "../format/amounts";
import { between, clock, dateTime, dayMonth, readable } from "../format/time";
import { Tag } from "../ui/basics";
import type { Column } from "../ui/grid";
import { passed } from "./job_times";
import type { JobRow } from "./job_rows";

export function jobPath(job: string): string[] {
  const at = job.indexOf("/");
  return ["jobs", job.slice(0, at), job.slice(at + 1)];
}

/** The word for a row's state: the most important one. */
export function stateOf(row: JobRow): string {
  if (row.state === "finished") return row.outcome && row.outcome !== "succeeded" ? row.outcome : "finished";
  if (row.held) return "held";
  return row.starving && row.state === "waiting" ? "starving" : row.state;
}

export function jobColumns(now: string): Column<JobRow>[] {
  return [
    { key: "job", title: "Job", width: 136, grow: 1.2, sort: "job", cell: (row) => <JobLink job={row.job} inGrid /> },
    { key: "state", title: "State", width: 92, sort: "state", cell: (row) => <Tag state={stateOf(row)} /> },
    { key: "queue", title: "Queue", width: 84, grow: 0.3, drop: 4, sort: "queue", cell: (row) => row.queue },
    { key: "namespace", title: "Namespace", width: 84, grow: 0.3, drop: 6, sort: "namespace", cell: (row) => row.namespace },
    { key: "position", title: "Pos.", hint: "Queue position", width: 52, align: "end", drop: 5, sort: "position", cell: (row) => (row.position ? count(row.position) : "") },
    { key: "pods", title: "Pods", width: 54, align: "end", drop: 3, sort: "pods", cell: podsText },
    { key: "for", title: "For", hint: "Waits, runs or ran for", width: 74, align: "end", sort: "waiting", cell: (row) => <Passed row={row} now={now} /> },
    { key: "start", title: "Start", hint: "Planned start; ~ estimated, > beyond the forecast", width: 66, align: "end", drop: 2, sort: "estimatedStart", cell: (row) => <Start row={row} now={now} /> },
    { key: "reason", title: "Reason", width: 280, grow: 6, drop: 1, sort: "reason", cell: (row) => <Reason row={row} /> },
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
  const { text, title } = passed(row, now);
  return <span title={title}>{text}</span>;
}

function Start(props: { row: JobRow; now: string }) {
  const { row, now } = props;
  if (row.state !== "waiting") return null;
  if (row.plannedStart) return <span title={`planned start ${dateTime(row.plannedStart)}`}>{moment(row.plannedStart, now)}</span>;
  if (row.estimatedStart) return <span title={`estimated start ${dateTime(row.estimatedStart)}`}>~{moment(row.estimatedStart, now)}</span>;
  if (row.startsAfter) return <span class="soft" title={`starts after ${dateTime(row.startsAfter)}, where the forecast of all jobs ends`}>&gt;{moment(row.startsAfter, now)}</span>;
  if (row.noStart) return <span class="soft" title="no start in sight: it still waits when all that is known has happened">none</span>;
  return <span class="soft" title="the estimated start is not computed yet">…</span>;
}

function moment(time: string, now: string): string {
  return (between(now, time) ?? 0) < 86_400 ? clock(time).slice(0, 5) : dayMonth(time);
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

/** Shown below a row if the reason has no column: the reason, or another important fact. */
export function Below(props: { row: JobRow; now: string }) {
  const { row } = props;
  if (!row.reason) return <>{row.queue} · {plural(row.pods, "pod")}</>;
  return (
    <>
      {row.plannedStart || row.estimatedStart ? <>starts <Start row={row} now={props.now} /> · </> : null}
      <Reason row={row} />
    </>
  );
}
