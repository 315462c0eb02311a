/** Waits, utilisation, evictions and shares over time, from recorded samples. */

import type { Schemas } from "../api/client";
import { useGet, useLink } from "../api/use";
import { useQuery } from "../app/route";
import { bytes, plural } from "../format/amounts";
import { dateTime, fromSeconds, seconds } from "../format/time";
import { Choice, Empty, Loading, Panel, Problem, View } from "../ui/basics";
import { Chart } from "../ui/chart";
import { WaitRows } from "../ui/wait_rows";

const SPANS = { all: ["All", 0], hour: ["1 hour", 3600], six: ["6 hours", 21_600], day: ["1 day", 86_400], week: ["7 days", 604_800] } as const;
type SpanName = keyof typeof SPANS;

export function HistoryView() {
  const [query, change] = useQuery();
  const { now } = useLink();
  const span = (query.get("span") ?? "all") in SPANS ? ((query.get("span") ?? "all") as SpanName) : "all";
  const length = SPANS[span][1];
  /** Rounded to a minute, so that not every delta makes a new request. */
  const from = length && now ? fromSeconds(Math.floor((seconds(now) - length) / 60) * 60) : null;
  const { data, error, reload } = useGet("/api/v1/history", { query: { from, points: 400 } }, ["history"]);
  const options = (Object.keys(SPANS) as SpanName[]).map((name) => [name, SPANS[name][0]] as const);
  return (
    <View title="History" note={data ? <Kept kept={data.kept} /> : null}>
      <div class="filters">
        <Choice label="Time range" options={options} value={span} onChange={(value) => change({ span: value === "all" ? null : value })} />
      </div>
      {error ? <Problem error={error} retry={reload} what="The history" /> : !data ? <Loading what="the history" /> : null}
      {data && data.kept.samples === 0 ? <div class="panel"><Empty title="Nothing has been recorded yet">Every cycle adds a sample.</Empty></div> : null}
      {data && data.kept.samples > 0 ? (
        <>
          <div class="columns">
            <Panel title="Utilisation" note="Allocated part of the cluster"><Chart series={data.utilisation} /></Panel>
            <Panel title="Jobs"><Chart series={data.jobs} /></Panel>
            <Panel title="Queues" note="Dominant share"><Chart series={data.queues} /></Panel>
            <Panel title="Namespaces" note="Dominant share, over all queues"><Chart series={data.namespaces} /></Panel>
            <Panel title="Evictions" note="Pods, by rule"><Chart series={data.evictions} none="No pod was evicted." /></Panel>
            <Panel title="Waits" note="Jobs that have started">
              {data.waitsBySize.length === 0 ? <p class="soft">No job has started yet.</p> : null}
              <Waits head="Size" rows={data.waitsBySize} />
              <Waits head="Namespace" rows={data.waitsByNamespace} />
            </Panel>
          </div>
        </>
      ) : null}
    </View>
  );
}

function Kept(props: { kept: Schemas["HistoryRange"] }) {
  const { kept } = props;
  if (!kept.first || !kept.last) return null;
  return (
    <>
      {plural(kept.samples, "sample")} from {dateTime(kept.first)} to {dateTime(kept.last)}, {bytes(kept.bytes)} of at most {bytes(kept.mostBytes)}
    </>
  );
}

function Waits(props: { head: string; rows: readonly Schemas["WaitGroup"][] }) {
  return <WaitRows head={props.head} high="90% waited at most" rows={props.rows.map((row) => ({ ...row, high: row.p90 }))} />;
}
