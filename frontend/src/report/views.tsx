/** The views of a report. Each shows all runs: one, or two side by side on the same scale. */

import type { ComponentChildren } from "preact";
import type { Schemas } from "../api/client";
import { count, plural } from "../format/amounts";
import { duration } from "../format/time";
import { Empty, Facts, Panel, Tag, View } from "../ui/basics";
import { Chart } from "../ui/chart";
import { Gantt, RecordedLegend } from "../ui/gantt";
import { WaitRows } from "../ui/wait_rows";
import { commonScale, commonTime, type Report, type Run } from "./data";

type Series = Schemas["TimeSeries"];
interface Props {
  readonly report: Report;
}

export function Overview({ report }: Props) {
  return (
    <View title={report.title} note={report.subtitle}>
      {report.runs.map((run) => (
        <section key={run.label} class="stack" aria-label={run.label || "The run"}>
          {run.label ? <h2>{run.label}</h2> : null}
          <Notices run={run} />
          <Measures run={run} />
        </section>
      ))}
      <ChartPanel report={report} title="Utilisation" note="Part of each resource that was in use" pick={(run) => run.utilisation} />
      <Panel title="Waits by size" note="Size: fraction of the cluster that a job requests"><WaitsBy report={report} by="size" /></Panel>
    </View>
  );
}

const NOTICE: Readonly<Record<string, readonly [string, string]>> = {
  partial: ["warning", "Partial"], failed: ["failed", "Failed"], passed: ["succeeded", "Passed"], warning: ["warning", "Warning"],
};

function Notices(props: { run: Run }) {
  if (props.run.notices.length === 0) return null;
  return (
    <ul class="notices">
      {props.run.notices.map((notice, index) => {
        const [state = "", word = ""] = NOTICE[notice.kind] ?? [];
        return <li key={index}><Tag state={state} text={word} /> <span>{notice.text}</span></li>;
      })}
    </ul>
  );
}

function Measures(props: { run: Run }) {
  return (
    <dl class="tiles measures">
      {props.run.measures.map((measure) => (
        <div key={measure.name}>
          <dt>{capitalised(measure.name)}</dt>
          <dd>{measure.value}{measure.detail ? <small>{measure.detail}</small> : null}</dd>
        </div>
      ))}
    </dl>
  );
}

/** `Makespan`; the name of a resource stays as it is written: `nvidia.com/gpu in use`. */
function capitalised(name: string): string {
  return name.endsWith(" in use") ? name : name.charAt(0).toUpperCase() + name.slice(1);
}

export function Comparison({ report }: Props) {
  const { comparison } = report;
  if (!comparison) return null;
  const withMargin = comparison.seeds > 1;
  return (
    <View title="Comparison" note={report.subtitle}>
      <Facts facts={[["A", comparison.first], ["B", comparison.second], ["Runs", withMargin ? `${count(comparison.seeds)} seeds` : "1 of each"]]} />
      {comparison.note ? <p class="soft">{comparison.note}</p> : null}
      {comparison.tables.map((table) => (
        <Panel key={table.title} title={table.title}>
          <div class="scroll-x" tabIndex={0} role="region" aria-label={table.title}>
            <table class="compared">
              <thead>
                <tr>
                  <th scope="col"><span class="hidden-text">Measure</span></th><th scope="col" class="number">A</th><th scope="col" class="number">B</th>
                  <th scope="col" class="number">Change</th>{withMargin ? <th scope="col" class="number">± (95%)</th> : null}<th scope="col">B is</th>
                </tr>
              </thead>
              <tbody>
                {table.rows.map((row) => (
                  <tr key={row.name}>
                    <th scope="row">{row.name}</th>
                    <td class="number">{row.first}</td><td class="number">{row.second}</td><td class="number">{row.change}</td>
                    {withMargin ? <td class="number">{row.margin}</td> : null}
                    <td>{row.verdict ? <span class={row.verdict}><span aria-hidden="true">{row.verdict === "better" ? "▲" : "▼"}</span> {row.verdict}</span> : ""}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
      ))}
    </View>
  );
}

export function Shares({ report }: Props) {
  const scale = commonScale(report.runs, (run) => run.namespaces);
  return (
    <View title="Shares" note={report.subtitle}>
      <ChartPanel report={report} title="Queues" note="Dominant share of each queue" pick={(run) => run.queues} />
      <Panel title="Namespaces" note="Dominant share, and the share that weight and demand entitle to">
        <Beside report={report}>
          {(run) => (
            <>
              <div class="multiples">
                {run.namespaces.map((series) => (
                  <section key={series.title} aria-label={series.title}>
                    <h3 class="unbroken">{series.title}</h3>
                    <Chart series={series} height={130} scale={scale} />
                  </section>
                ))}
              </div>
              {run.namespaces.length === 0 ? <p class="soft">No job was allocated anything.</p> : null}
              {run.moreNamespaces > 0 ? <p class="soft">{plural(run.moreNamespaces, "more namespace")} with less service.</p> : null}
            </>
          )}
        </Beside>
      </Panel>
    </View>
  );
}

export function Waits({ report }: Props) {
  return (
    <View title="Waits" note={report.subtitle}>
      <ChartPanel report={report} title="Waiting jobs" note="With reservations, where there were any" pick={(run) => run.waiting} />
      <ChartPanel report={report} title="Fragmentation" note="Idle part of the most used resource while jobs were waiting" pick={(run) => run.fragmentation} none="No job waited while anything was idle." />
      <Panel title="Waits by size" note="Size: fraction of the cluster that a job requests"><WaitsBy report={report} by="size" /></Panel>
      <Panel title="Waits by queue"><WaitsBy report={report} by="queue" /></Panel>
      <Panel title="Waits by namespace"><WaitsBy report={report} by="namespace" /></Panel>
    </View>
  );
}

function WaitsBy(props: Props & { by: Schemas["WaitTable"]["by"] }) {
  const tables = new Map(props.report.runs.map((run) => [run, run.waits.find((table) => table.by === props.by)]));
  const top = Math.max(1, ...[...tables.values()].flatMap((table) => table?.rows.map((row) => row.p95) ?? []));
  return (
    <Beside report={props.report}>
      {(run) => {
        const table = tables.get(run);
        const rows = (table?.rows ?? []).filter((row) => row.jobs > 0);
        return (
          <>
            <WaitRows head={capitalised(props.by)} high="95% waited at most" top={top} rows={rows.map((row) => ({ ...row, high: row.p95 }))} />
            {rows.length === 0 ? <p class="soft">No job finished.</p> : null}
            {table?.more ? <p class="soft">and {count(table.more)} more in report.json</p> : null}
          </>
        );
      }}
    </Beside>
  );
}

export function Evictions({ report }: Props) {
  const time = commonTime(report.runs);
  return (
    <View title="Evictions and reservations" note={report.subtitle}>
      <ChartPanel report={report} title="Evictions" note="Pods evicted in each interval" pick={(run) => run.evictions} none="No pod was evicted." />
      <Panel title="Reservations" note="While a bar lasts, nodes were reserved for that starving job; the longest ones">
        <Beside report={report}>
          {(run) =>
            run.reservations.length > 0 ? (
              <Gantt nodes={run.reservations} rows="jobs" start={time.from} end={time.until} now={null} />
            ) : (
              <p class="soft">No job starved long enough for a reservation.</p>
            )
          }
        </Beside>
      </Panel>
    </View>
  );
}

export function Nodes({ report }: Props) {
  const time = commonTime(report.runs);
  const drawn = report.runs.some((run) => run.timeline.length > 0);
  return (
    <View title="Pods on nodes" note={report.subtitle}>
      <Panel title="Timeline of nodes">
        <Beside report={report}>
          {(run) =>
            run.timeline.length > 0 ? (
              <Gantt nodes={run.timeline} start={time.from} end={time.until} now={null} />
            ) : (
              <Empty title="No timeline">{run.timelineNote}</Empty>
            )
          }
        </Beside>
        {drawn ? <RecordedLegend /> : null}
      </Panel>
    </View>
  );
}

export function Fleet({ report }: Props) {
  const scale = { ...commonTime(report.runs), top: 1 };
  return (
    <View title="Fleet" note={report.subtitle}>
      <Panel title="Clusters" note="Waits count from the submission to the fleet; moves are of pending jobs">
        <Beside report={report}>
          {(run) => (run.fleet ? <Clusters fleet={run.fleet} /> : <p class="soft">Not a fleet.</p>)}
        </Beside>
      </Panel>
      <Panel title="Teams" note="Time without a cluster, moves, and where jobs ran">
        <Beside report={report}>{(run) => (run.fleet ? <Teams fleet={run.fleet} /> : null)}</Beside>
      </Panel>
      <Panel title="Utilisation of clusters" note="Most used resource of each cluster">
        <Beside report={report}>
          {(run) => (
            <>
              <div class="multiples">
                {run.fleet?.use.map((series) => (
                  <section key={series.title} aria-label={series.title}>
                    <h3 class="unbroken">{series.title}</h3>
                    <Chart series={series} height={130} scale={scale} />
                  </section>
                ))}
              </div>
              {run.fleet?.moreUse ? <p class="soft">{plural(run.fleet.moreUse, "more cluster")}.</p> : null}
            </>
          )}
        </Beside>
      </Panel>
    </View>
  );
}

function Clusters(props: { fleet: Schemas["RunFleet"] }) {
  const { fleet } = props;
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Clusters">
        <table>
          <thead>
            <tr>
              <th scope="col">Cluster</th>
              {["Nodes", "Finished", "Running", "Waiting", "Mean wait", "Longest", "Moved in", "Out"].map((name) => <th key={name} scope="col" class="number">{name}</th>)}
              <th scope="col">In use</th>
            </tr>
          </thead>
          <tbody>
            {fleet.clusters.map((row) => (
              <tr key={row.name}>
                <th scope="row">{row.name}</th>
                {[count(row.nodes), count(row.finished), count(row.running), count(row.waiting), duration(row.meanWait), duration(row.longestWait), count(row.movedIn), count(row.movedOut)].map((text, index) => (
                  <td key={index} class="number">{text}</td>
                ))}
                <td>{row.inUse}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fleet.moreClusters > 0 ? <p class="soft">and {plural(fleet.moreClusters, "more cluster")}</p> : null}
      {fleet.unplaced > 0 ? <p class="soft">{plural(fleet.unplaced, "job")} without a cluster at the end.</p> : null}
    </>
  );
}

function Teams(props: { fleet: Schemas["RunFleet"] }) {
  const { fleet } = props;
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Teams">
        <table>
          <thead>
            <tr>
              <th scope="col">Team</th><th scope="col" class="number">Without a cluster</th><th scope="col" class="number">Longest</th>
              <th scope="col" class="number">Moves</th><th scope="col">Jobs by cluster</th>
            </tr>
          </thead>
          <tbody>
            {fleet.teams.map((row) => (
              <tr key={row.name}>
                <th scope="row">{row.name}</th>
                <td class="number">{duration(row.unplacedMean)}</td><td class="number">{duration(row.unplacedLongest)}</td>
                <td class="number">{count(row.moves)}</td><td>{row.clusters}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fleet.moreTeams > 0 ? <p class="soft">and {plural(fleet.moreTeams, "more team")}</p> : null}
    </>
  );
}

export function About({ report }: Props) {
  return (
    <View title="About this report" note={report.subtitle}>
      <Panel title="Origin">
        <div class="stack">
          {report.command ? <p>Written by <code class="command">{report.command}</code></p> : null}
          {report.runs.map((run) => <p key={run.label}>{run.label || run.policy}: seed {run.seed}</p>)}
          <p>{report.rules}</p>
          {report.notes.map((note) => <p key={note}>{note}</p>)}
        </div>
      </Panel>
      {report.policies.map((policy, index) => (
        <Panel key={index} title={`Policy: ${policy.name}`}>
          <pre class="table-frame" tabIndex={0}>{policy.text}</pre>
        </Panel>
      ))}
    </View>
  );
}

function ChartPanel(props: Props & { title: string; note: string; pick: (run: Run) => Series; none?: string }) {
  const scale = commonScale(props.report.runs, (run) => [props.pick(run)]);
  return (
    <Panel title={props.title} note={props.note}>
      <Beside report={props.report}>
        {(run) => <Chart series={props.pick(run)} scale={scale} none={props.none ?? "Nothing ran."} />}
      </Beside>
    </Panel>
  );
}

/** The same part of each run, beside each other where there is space. */
function Beside(props: Props & { children: (run: Run) => ComponentChildren }) {
  const { runs } = props.report;
  if (runs.length === 1 && runs[0]) return <>{props.children(runs[0])}</>;
  return (
    <div class="beside">
      {runs.map((run) => (
        <div key={run.label}>
          <h3 class="unbroken">{run.label}</h3>
          {props.children(run)}
        </div>
      ))}
    </div>
  );
}
