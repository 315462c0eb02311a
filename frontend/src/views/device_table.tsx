/** Devices and which pods have them. */

import type { Schemas } from "../api/client";
import { href } from "../app/route";
import { count, percent } from "../format/amounts";
import { Tag } from "../ui/basics";
import { Meter } from "../ui/bars";

/** Units allocated to pods, directly or as part of a device group. */
function inUse(device: Schemas["NodeDevice"]): number {
  return Object.values(device.holders).reduce((sum, units) => sum + units, 0);
}

export function DeviceTable(props: { devices: readonly Schemas["NodeDevice"][]; withNode?: boolean }) {
  return (
    <div class="table-frame tall" tabIndex={0} role="region" aria-label="Table of devices">
      <table>
        <thead>
          <tr>
            {props.withNode ? <th scope="col">Node</th> : null}
            <th scope="col">Device</th>
            <th scope="col">Allocated to</th>
            <th scope="col" class="wide">In use</th>
            <th scope="col">Kind</th>
            <th scope="col">Classes</th>
          </tr>
        </thead>
        <tbody>
          {props.devices.map((one) => (
            <tr key={one.node + one.device}>
              {props.withNode ? <td class="nowrap"><a href={href(["nodes"], { node: one.node })}>{one.node}</a></td> : null}
              <th scope="row" title={Object.entries(one.attributes).map(([key, value]) => `${key}=${value}`).join("\n")}>{one.device}</th>
              <td class="small">
                {Object.entries(one.holders).map(([pod, units], index) => (
                  <span key={pod}>{index ? ", " : ""}{pod}{one.quantity === 1 ? "" : ` ×${count(units)}`}</span>
                ))}
                {Object.keys(one.holders).length === 0 ? <span class="soft">free</span> : null}
              </td>
              <td>
                {one.unusable && inUse(one) === 0 ? (
                  <Tag state="error" text={one.unusable} />
                ) : (
                  <Meter
                    part={one.quantity ? inUse(one) / one.quantity : 0}
                    label={one.device}
                    text={one.quantity === 1 ? percent(inUse(one)) : `${count(inUse(one))} of ${count(one.quantity)}`}
                  />
                )}
              </td>
              <td>{one.kind}</td>
              <td class="small soft">{one.classes.join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
