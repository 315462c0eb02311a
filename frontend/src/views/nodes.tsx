/** Nodes as a heat map, one of them in full, and what still fits: fragmentation. */

import { useMemo } from "preact/hooks";
import type { Schemas } from "../api/client";
import { useGet, usePage } from "../api/use";
import { useQuery } from "../app/route";
import { byRank, percent, plural, shortName, shown } from "../format/amounts";
import { Choice, Empty, Loading, Panel, Problem, View } from "../ui/basics";
import { SearchBox } from "../ui/filter";
import { HeatLegend, HeatMap, type Cell } from "../ui/heatmap";
import { FitPanel } from "./fit";
import { NodePanel } from "./node";

type Nodes = Schemas["NodesMap"];

export function NodesView() {
  const [query, change] = useQuery();
  const { session } = usePage();
  const { data, error, reload } = useGet("/api/v1/nodes", {}, ["nodes"]);
  const resources = useMemo(() => (data ? data.columns.map((one) => one.resource).filter((name) => name !== "pods").sort(byRank) : []), [data]);
  const resource = resources.find((name) => name === query.get("resource")) ?? resources[0] ?? "";
  const search = query.get("search") ?? "";
  const state = query.get("state") ?? "";
  const pool = query.get("pool") ?? "";
  const cells = useMemo(() => (data ? cellsOf(data, resource, { search, state, pool }) : []), [data, resource, search, state, pool]);
  const chosen = query.get("node");
  return (
    <View title="Nodes" note={data ? counts(data) : null}>
      {error ? <Problem error={error} retry={reload} what="The nodes" /> : null}
      {!data && !error ? <Loading what="nodes" /> : null}
      {data && data.names.length === 0 ? <div class="panel"><Empty title="No nodes">{session.source === "sandbox" ? <>In another terminal: <code>fairway apply -f examples/sandbox/more-nodes.yaml</code></> : "Nodes of the cluster appear here."}</Empty></div> : null}
      {data && data.names.length > 0 ? (
        <>
          <div class="filters">
            <Choice label="Resource" options={resources.map((name) => [name, shortName(name)] as const)} value={resource} onChange={(value) => change({ resource: value })} />
            <SearchBox label="Find nodes by name" value={search} onChange={(value) => change({ search: value })} />
            <Select label="State" value={state} options={["reserved", ...data.stateNames]} textOf={stateText} onChange={(value) => change({ state: value })} />
            {data.poolNames.length > 1 ? <Select label="Pool" value={pool} options={data.poolNames} onChange={(value) => change({ pool: value })} /> : null}
          </div>
          <Panel title={`${shortName(resource)} in use`} note={cells.length === data.names.length ? undefined : `${cells.length} of ${plural(data.names.length, "node")}`}>
            {cells.length > 0 ? (
              <HeatMap cells={cells} what={shortName(resource)} selected={chosen} onSelect={(name) => change({ node: name === chosen ? null : name })} />
            ) : (
              <Empty title="No node matches these filters" />
            )}
            <HeatLegend />
          </Panel>
          {chosen ? <NodePanel name={chosen} close={() => change({ node: null })} /> : null}
          <FitPanel resources={resources} />
        </>
      ) : null}
    </View>
  );
}

function counts(nodes: Nodes): string {
  const parts = [plural(nodes.names.length, "node")];
  nodes.stateNames.forEach((name, index) => {
    const number = nodes.states.filter((state) => state === index).length;
    if (number && name !== "Ready") parts.push(`${number} ${stateText(name)}`);
  });
  const reserved = nodes.reserved.filter((pods) => pods > 0).length;
  if (reserved) parts.push(`${reserved} reserved`);
  return parts.join(" · ");
}

export function cellsOf(nodes: Nodes, resource: string, filter: { search: string; state: string; pool: string }): Cell[] {
  const column = nodes.columns.find((one) => one.resource === resource);
  const word = filter.search.toLowerCase();
  const cells: Cell[] = [];
  nodes.names.forEach((name, index) => {
    const state = nodes.stateNames[nodes.states[index] ?? 0] ?? "Ready";
    const reserved = (nodes.reserved[index] ?? 0) > 0;
    if (word && !name.toLowerCase().includes(word)) return;
    if (filter.state && filter.state !== (filter.state === "reserved" && reserved ? "reserved" : state)) return;
    if (filter.pool && nodes.poolNames[nodes.pools[index] ?? 0] !== filter.pool) return;
    const allocatable = column?.allocatable[index] ?? 0;
    const used = column?.used[index] ?? 0;
    const kept = column?.reserved[index] ?? 0;
    const part = allocatable > 0 ? used / allocatable : 0;
    const amounts = allocatable > 0
      ? `${shown(resource, used)} of ${shown(resource, allocatable)} ${shortName(resource)} (${percent(part)})`
      : `has no ${shortName(resource)}`;
    const marks = [
      amounts,
      kept > 0 ? `${shown(resource, kept)} reserved` : reserved ? "reserved" : "",
      plural(nodes.pods[index] ?? 0, "pod"),
      state === "Ready" ? "" : stateText(state),
    ];
    cells.push({ name, part, reserved, state, text: `${name}: ${marks.filter(Boolean).join(", ")}` });
  });
  return cells;
}

function stateText(state: string): string {
  return { SchedulingDisabled: "cordoned", NotReady: "not ready", Ready: "ready" }[state] ?? state;
}

function Select(props: { label: string; value: string; options: readonly string[]; textOf?: (option: string) => string; onChange: (value: string) => void }) {
  return (
    <label class="labelled">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {props.options.map((option) => <option key={option} value={option}>{props.textOf?.(option) ?? option}</option>)}
      </select>
    </label>
  );
}
