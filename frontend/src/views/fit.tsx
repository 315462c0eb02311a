/** Fragmentation: how many gangs of k pods of a shape fit now, and how much free capacity they cannot use. */

import { useGet } from "../api/use";
import { useQuery } from "../app/route";
import { count, plural, shortName, shown } from "../format/amounts";
import { Loading, Panel, Problem, Tiles } from "../ui/basics";
import { Meter } from "../ui/bars";

export function FitPanel(props: { resources: readonly string[] }) {
  const [query, change] = useQuery();
  const pods = query.get("gang") ?? "2";
  const first = props.resources[0] ?? "cpu";
  const requests = query.getAll("request").length > 0 ? query.getAll("request") : [`${first}=1`];
  const valueOf = (name: string): string => requests.find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const set = (name: string, value: string): void => {
    const rest = requests.filter((one) => !one.startsWith(`${name}=`));
    change({ request: value.trim() ? [...rest, `${name}=${value.trim()}`] : rest });
  };
  const asked = /^\d+$/.test(pods) && Number(pods) > 0 && requests.length > 0;
  const { data, error, reload } = useGet(asked ? "/api/v1/nodes/fit" : null, { query: { pods, request: requests } }, ["nodes"]);
  return (
    <Panel title="What fits now" note="By free capacity alone, without queues, priorities and placement rules">
      <div class="filters fit-form">
        <label class="labelled">
          <span>Gangs of</span>
          <input type="number" min="1" max="100000" value={pods} onChange={(event) => change({ gang: event.currentTarget.value })} />
          <span>pods, each with</span>
        </label>
        {props.resources.slice(0, 4).map((name) => (
          <label key={name} class="labelled">
            <input type="text" value={valueOf(name)} placeholder="0" onChange={(event) => set(name, event.currentTarget.value)} />
            <span>{shortName(name)}</span>
          </label>
        ))}
      </div>
      {error ? <Problem error={error} retry={reload} what="The answer" /> : null}
      {!data && asked && !error ? <Loading what="the answer" /> : null}
      {data && !error ? <Answer data={data} /> : null}
    </Panel>
  );
}

function Answer(props: { data: NonNullable<ReturnType<typeof useGet<"/api/v1/nodes/fit">>["data"]> }) {
  const { data } = props;
  const sizes = Object.entries(data.perNode).map(([size, nodes]) => [Number(size), nodes] as const).sort((a, b) => b[0] - a[0]);
  const all = sizes.reduce((sum, [, nodes]) => sum + nodes, 0);
  const asked = Object.keys(data.requests);
  return (
    <div class="stack">
      <Tiles
        tiles={[
          ["Gangs that fit", count(data.gangs), `of ${plural(data.pods, "pod")}`],
          ["Pods that fit", count(data.totalPods), `on ${plural(data.nodes, "node")}`],
          ...asked.map((name) => [
            `Stranded ${shortName(name)}`, shown(name, data.stranded[name] ?? 0), `of ${shown(name, data.free[name] ?? 0)} free`,
          ] as const),
        ]}
      />
      <div class="columns">
        <GangSizes total={data.totalPods} />
        <table class="per-node">
          <caption>Nodes by the number of such pods that fit</caption>
          <tbody>
            {sizes.slice(0, 12).map(([size, nodes]) => (
              <tr key={size}>
                <th scope="row" class="nowrap">{plural(size, "pod")}</th>
                <td class="wide"><Meter part={all ? nodes / all : 0} label={plural(size, "pod")} text={plural(nodes, "node")} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256] as const;

/** How many gangs of other sizes fit, of pods of the same shape. */
function GangSizes(props: { total: number }) {
  if (props.total === 0) return <p class="soft">No pod of this shape fits on any node.</p>;
  const last = SIZES.findIndex((size) => size > props.total);
  const sizes = last < 0 ? SIZES : SIZES.slice(0, last + 1);
  return (
    <table class="gang-sizes">
      <caption>Gangs of this shape that fit, by size</caption>
      <thead>
        <tr><th scope="col">Pods of a gang</th>{sizes.map((size) => <th key={size} scope="col" class="number">{count(size)}</th>)}</tr>
      </thead>
      <tbody>
        <tr>
          <th scope="row">Gangs that fit</th>
          {sizes.map((size) => <td key={size} class="number">{count(Math.floor(props.total / size))}</td>)}
        </tr>
      </tbody>
    </table>
  );
}
