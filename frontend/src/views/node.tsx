/** One node: amounts, pods, devices and reservations. */

import type { Schemas } from "../api/client";
import { useGet } from "../api/use";
import { byRank, count, percent, plural, shortName, shown } from "../format/amounts";
import { dateTime } from "../format/time";
import { Loading, Panel, Problem, Tag } from "../ui/basics";
import { Meter } from "../ui/bars";
import { DeviceTable } from "./device_table";
import { JobLink } from "./job_cells";

type Detail = Schemas["NodeDetail"];

export function NodePanel(props: { name: string; close: () => void }) {
  const { data, error, reload } = useGet("/api/v1/nodes/{name}", { path: { name: props.name } }, ["nodes"]);
  return (
    <Panel
      title={`Node ${props.name}`}
      note={data ? <Note node={data} /> : null}
      actions={<button type="button" class="plain" onClick={props.close}>Close</button>}
    >
      {error ? <Problem error={error} retry={reload} what="The node" /> : data ? <Body node={data} /> : <Loading what="the node" />}
    </Panel>
  );
}

function Note(props: { node: Detail }) {
  const { node } = props;
  return (
    <>
      <Tag state={node.state} text={node.state === "SchedulingDisabled" ? "cordoned" : node.state === "NotReady" ? "not ready" : "ready"} />{" "}
      {plural(node.pods.length, "pod")}
      {node.taints.length > 0 ? ` · taints: ${node.taints.join(", ")}` : ""}
    </>
  );
}

function Body(props: { node: Detail }) {
  const { node } = props;
  const names = Object.keys(node.allocatable).filter((name) => name !== "pods").sort(byRank);
  return (
    <div class="stack">
      <div class="amount-list">
        {names.map((name) => {
          const all = node.allocatable[name] ?? 0;
          const used = node.used[name] ?? 0;
          const kept = node.reservedAmounts[name] ?? 0;
          return (
            <div key={name}>
              <span>{shortName(name)}</span>
              <Meter part={all ? used / all : 0} label={name} text={percent(all ? used / all : 0)} />
              <span class="small soft">
                {shown(name, used)}{kept > 0 ? ` + ${shown(name, kept)} reserved` : ""} of {shown(name, all)}
              </span>
            </div>
          );
        })}
      </div>
      {node.reservations.length > 0 ? (
        <p>
          Reserved for{" "}
          {node.reservations.map((row, index) => (
            <span key={row.pod}>{index ? ", " : ""}<JobLink job={row.job} /> <span class="soft">({row.state}{row.plannedStart ? `, planned start ${dateTime(row.plannedStart)}` : ""})</span></span>
          ))}
        </p>
      ) : null}
      {node.pods.length > 0 ? <Pods pods={node.pods} /> : <p class="soft">No pods.</p>}
      {node.devices.length > 0 ? <details><summary>{plural(node.devices.length, "device")}</summary><DeviceTable devices={node.devices} /></details> : null}
      {Object.keys(node.labels).length > 0 ? (
        <details>
          <summary>{plural(Object.keys(node.labels).length, "label")}</summary>
          <ul class="mono small">{Object.entries(node.labels).map(([key, value]) => <li key={key}>{key}={value}</li>)}</ul>
        </details>
      ) : null}
    </div>
  );
}

function Pods(props: { pods: Detail["pods"] }) {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label="Pods of the node">
      <table>
        <thead>
          <tr><th scope="col">Pod</th><th scope="col">Job</th><th scope="col">Queue</th><th scope="col">State</th><th scope="col">Requests</th><th scope="col">Since</th></tr>
        </thead>
        <tbody>
          {props.pods.map((pod) => (
            <tr key={pod.pod}>
              <th scope="row">{pod.pod.slice(pod.pod.indexOf("/") + 1)}</th>
              <td>{pod.job.includes("/") ? <JobLink job={pod.job} /> : pod.job}</td>
              <td>{pod.queue}</td>
              <td><Tag state={pod.state} /></td>
              <td class="small">
                {Object.keys(pod.requests).filter((name) => name !== "pods" && (pod.requests[name] ?? 0) > 0).sort(byRank)
                  .map((name) => `${shown(name, pod.requests[name])} ${shortName(name)}`).join(", ")}
                {pod.devices && pod.devices.length > 0 ? ` · ${pod.devices.map((one) => `${one.device} ×${count(one.quantity)}`).join(", ")}` : ""}
              </td>
              <td class="small nowrap">{dateTime(pod.since)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
