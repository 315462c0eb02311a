/** Device classes, devices, and the pods that have them. */

import { useGet } from "../api/use";
import { useQuery } from "../app/route";
import { count, percent, plural } from "../format/amounts";
import { Empty, Loading, Panel, Problem, View } from "../ui/basics";
import { Meter } from "../ui/bars";
import { Chips, SearchBox } from "../ui/filter";
import { DeviceTable } from "./device_table";

const STEP = 200;

export function DevicesView() {
  const [query, change] = useQuery();
  const limit = Number(query.get("limit")) || STEP;
  const asked = { class: query.get("class"), node: query.get("node"), kind: query.get("kind"), holder: query.get("holder"), limit };
  const { data, error, reload } = useGet("/api/v1/devices", { query: asked }, ["devices"]);
  const filters = (["class", "node", "kind", "holder"] as const).filter((name) => query.get(name));
  const chips = filters.map((name) => ({ key: name, text: `${name}: ${query.get(name)}`, remove: () => change({ [name]: null }) }));
  const clear = (): void => change({ class: null, node: null, kind: null, holder: null });
  const nothing = data && data.classes.length === 0 && data.total === 0 && filters.length === 0;
  return (
    <View title="Devices" note={data ? `${plural(data.total, "device")}, ${plural(data.classes.length, "class", "classes")}` : null}>
      {error ? <Problem error={error} retry={reload} what="The devices" /> : null}
      {!data && !error ? <Loading what="devices" /> : null}
      {nothing ? (
        <div class="panel">
          <Empty title="No devices">
            Nodes publish them by ResourceSlices or by annotation; resources such as nvidia.com/gpu are in the view of nodes.
          </Empty>
        </div>
      ) : null}
      {data && !nothing ? (
        <>
          {data.classes.length > 0 ? <Classes rows={data.classes} choose={(name) => change({ class: name })} /> : null}
          <div class="filters">
            <SearchBox label="Pod that has it" placeholder="Pod (part of its name)" value={query.get("holder") ?? ""} onChange={(holder) => change({ holder })} />
            <SearchBox label="Node" placeholder="Node (whole name)" value={query.get("node") ?? ""} onChange={(node) => change({ node })} />
          </div>
          <Chips chips={chips} clear={clear} />
          <Panel title="Devices" note={data.total > data.devices.length ? `the first ${count(data.devices.length)} of ${count(data.total)}` : undefined}>
            {data.devices.length > 0 ? <DeviceTable devices={data.devices} withNode /> : <Empty title="No device matches these filters" />}
            {data.total > data.devices.length && limit < 1000 ? (
              <button type="button" class="plain" onClick={() => change({ limit: String(Math.min(1000, limit + STEP)) })}>Show more</button>
            ) : null}
          </Panel>
        </>
      ) : null}
    </View>
  );
}

function Classes(props: { rows: readonly { name: string; allocatable: number; requested: number; selector: string; problems?: readonly string[] }[]; choose: (name: string) => void }) {
  return (
    <Panel title="Classes" note="Allocatable units, and units requested by pods">
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of device classes">
        <table class="amounts">
          <thead>
            <tr><th scope="col">Class</th><th scope="col" class="wide">Requested of allocatable</th><th scope="col">Selects</th></tr>
          </thead>
          <tbody>
            {props.rows.map((row) => (
              <tr key={row.name}>
                <th scope="row"><button type="button" class="plain group-value" onClick={() => props.choose(row.name)}>{row.name}</button></th>
                <td>
                  <Meter
                    part={row.allocatable ? row.requested / row.allocatable : 0}
                    label={row.name}
                    text={`${count(row.requested)} of ${count(row.allocatable)}${row.allocatable ? ` (${percent(row.requested / row.allocatable)})` : ""}`}
                  />
                </td>
                <td class="small">
                  <code>{row.selector}</code>
                  {(row.problems ?? []).map((problem) => <p key={problem} class="problem">{problem}</p>)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
