/** Evictions with their claimants, reservations and planned starts, and a timeline of nodes. */

import { useGet } from "../api/use";
import { href, useQuery } from "../app/route";
import type { Schemas } from "../api/client";
import { count, plural } from "../format/amounts";
import { between, dateTime, duration, seconds } from "../format/time";
import { Choice, Empty, Loading, Panel, Problem, Tag, Tiles, View } from "../ui/basics";
import { SearchBox } from "../ui/filter";
import { Gantt, GanttLegend } from "../ui/gantt";
import { EvictionTable } from "./eviction_table";
import { JobLink } from "./job_cells";

const SHOWN_NODES = 12;
type Feed = "evictions" | "all";

export function EvictionsView() {
  return (
    <View title="Evictions and reservations">
      <Evictions />
      <Reservations />
      <Timeline />
    </View>
  );
}

function Evictions() {
  const [query, change] = useQuery();
  const feed: Feed = query.get("feed") === "all" ? "all" : "evictions";
  const { data, error, reload } = useGet("/api/v1/evictions", { query: { limit: 200 } }, ["evictions"]);
  const rules = Object.entries(data?.byRule ?? {}).sort((a, b) => b[1] - a[1]);
  return (
    <>
      {data ? (
        <Tiles
          tiles={[
            ["Pods evicted", count(data.total)],
            ["Work lost", duration(data.lostPodSeconds), "pod time"],
            ...rules.map(([rule, number]) => [`By ${rule}`, count(number)] as const),
          ]}
        />
      ) : null}
      <Panel
        title="Feed"
        actions={<Choice label="Feed" options={[["evictions", "Evictions"], ["all", "All events"]]} value={feed} onChange={(value) => change({ feed: value === "all" ? "all" : null })} />}
      >
        {feed === "all" ? (
          <Events />
        ) : error ? (
          <Problem error={error} retry={reload} what="The evictions" />
        ) : !data ? (
          <Loading what="evictions" />
        ) : data.rows.length > 0 ? (
          <EvictionTable rows={data.rows} />
        ) : (
          <Empty title="No pod was evicted">Evictions appear here as they happen, with the rule and the work lost.</Empty>
        )}
      </Panel>
    </>
  );
}

function Events() {
  const { data, error, reload } = useGet("/api/v1/feed", { query: { limit: 200 } }, ["jobs", "evictions", "reservations", "nodes"]);
  if (error) return <Problem error={error} retry={reload} what="The events" />;
  if (!data) return <Loading what="events" />;
  if (data.rows.length === 0) return <Empty title="No events yet">Events of jobs (arrivals, starts, ends, evictions) appear here.</Empty>;
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label="Events">
      <ol class="story">
        {data.rows.map((row) => (
          <li key={row.id}>
            <time dateTime={row.at}>{dateTime(row.at)}</time>
            <Tag state={row.kind} />
            <span>{row.job ? <><JobLink job={row.job} /> </> : null}{row.text}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Timeline() {
  const [query, change] = useQuery();
  const offset = Number(query.get("offset")) || 0;
  const search = query.get("node") ?? "";
  const { data, error, reload } = useGet("/api/v1/timeline", { query: { offset, limit: SHOWN_NODES, search } }, ["nodes", "reservations"]);
  const last = Math.min(offset + SHOWN_NODES, data?.total ?? 0);
  return (
    <Panel title="Timeline of nodes" note={data?.total ? `${count(offset + 1)}–${count(last)} of ${plural(data.total, "node")}` : undefined}>
      {search || !data || data.total > 0 ? (
        <div class="filters">
          <SearchBox label="Find nodes by name" value={search} onChange={(node) => change({ node, offset: null })} />
          {data && data.total > SHOWN_NODES ? (
            <>
              <button type="button" disabled={offset === 0} onClick={() => change({ offset: String(Math.max(0, offset - SHOWN_NODES)) })}>Previous</button>
              <button type="button" disabled={last >= data.total} onClick={() => change({ offset: String(offset + SHOWN_NODES) })}>Next</button>
            </>
          ) : null}
        </div>
      ) : null}
      {error ? <Problem error={error} retry={reload} what="The timeline" /> : !data ? <Loading what="the timeline" /> : null}
      {data && data.nodes.length > 0 ? (
        <>
          <Gantt nodes={data.nodes} start={data.start} end={data.end} now={seconds(data.now)} />
          <GanttLegend />
        </>
      ) : null}
      {data && data.nodes.length === 0 ? (
        <Empty title={search ? "No node name contains this" : "No nodes"}>
          {search ? "Clear the filter to see all nodes." : "Running pods, reservations and planned starts appear here."}
        </Empty>
      ) : null}
    </Panel>
  );
}

function Reservations() {
  const { data, error, reload } = useGet("/api/v1/reservations", {}, ["reservations"]);
  const jobs = byJob(data?.rows ?? []);
  return (
    <Panel title="Reservations and planned starts" note={data ? plural(jobs.length, "job") : undefined}>
      {error ? <Problem error={error} retry={reload} what="The reservations" /> : !data ? <Loading what="reservations" /> : null}
      {data && jobs.length === 0 ? <Empty title="No reservations">Nodes are reserved for starving jobs, and backfill plans starts.</Empty> : null}
      {data && jobs.length > 0 ? (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of reservations">
          <table>
            <thead>
              <tr><th scope="col">Job</th><th scope="col">Queue</th><th scope="col">State</th><th scope="col">Planned start</th><th scope="col">Nodes</th></tr>
            </thead>
            <tbody>
              {jobs.map(([job, rows]) => <ReservedJob key={job} job={job} rows={rows} now={data.now} />)}
            </tbody>
          </table>
        </div>
      ) : null}
    </Panel>
  );
}

type Row = Schemas["ReservationEntry"];

function ReservedJob(props: { job: string; rows: readonly Row[]; now: string }) {
  const { rows } = props;
  const start = rows.find((row) => row.plannedStart)?.plannedStart;
  const hard = rows.some((row) => row.hard);
  const nodes = [...new Set(rows.map((row) => row.node).filter(Boolean))].sort();
  const states = [...new Set(rows.map((row) => row.state))];
  return (
    <tr>
      <th scope="row"><JobLink job={props.job} /></th>
      <td>{rows[0]?.queue}</td>
      <td>{states.map((state) => <Tag key={state} state={state} />)}</td>
      <td class="nowrap">
        {start ? `${dateTime(start)} (in ${duration(Math.max(0, between(props.now, start) ?? 0))}, ${hard ? "guaranteed" : "may move"})` : "–"}
      </td>
      <td class="small">
        {nodes.slice(0, 8).map((node, index) => <span key={node}>{index ? ", " : ""}<a href={href(["nodes"], { node })}>{node}</a></span>)}
        {nodes.length > 8 ? <span class="soft"> and {nodes.length - 8} more</span> : null}
      </td>
    </tr>
  );
}

function byJob(rows: readonly Row[]): [string, Row[]][] {
  const jobs = new Map<string, Row[]>();
  for (const row of rows) jobs.set(row.job, [...(jobs.get(row.job) ?? []), row]);
  return [...jobs];
}
