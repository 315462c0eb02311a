/** Where the pods of a job are, or why each node does not fit, grouped by cause. */

import type { Schemas } from "../api/client";
import { href } from "../app/route";
import { count, plural } from "../format/amounts";
import { dateTime } from "../format/time";
import { Names, Tag } from "../ui/basics";
import { Meter } from "../ui/bars";

type Detail = Schemas["JobDetail"];

const MOST = 24;

export function JobPods(props: { detail: Detail }) {
  const { detail } = props;
  const nodes = detail.causes.reduce((sum, cause) => sum + cause.nodes, 0);
  const listed = new Set(detail.pods.filter((pod) => pod.node).map((pod) => pod.pod));
  const unlisted = detail.reservations.filter((row) => !listed.has(row.pod));
  return (
    <div class="stack">
      {detail.causes.length > 0 ? (
        <table>
          <caption>Why {plural(nodes, "node does", "nodes do")} not fit</caption>
          <tbody>
            {detail.causes.map((cause) => (
              <tr key={cause.cause}>
                <th scope="row" class="cause">{causeText(cause.cause)}</th>
                <td class="wide"><Meter part={cause.nodes / nodes} label={cause.cause} text={count(cause.nodes)} /></td>
                <td class="small soft"><Names names={cause.examples ?? []} most={2} link={nodeLink} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      {unlisted.length > 0 ? <Reserved rows={unlisted} /> : null}
      <PodList detail={detail} />
    </div>
  );
}

/** kube-scheduler's words for this cause are hard to read. */
function causeText(cause: string): string {
  return cause === "node(s) resource was(were) reserved" ? "node is reserved" : cause;
}

function nodeLink(name: string): string {
  return href(["nodes"], { node: name });
}

function Reserved(props: { rows: Detail["reservations"] }) {
  return (
    <p>
      Nodes reserved for it:{" "}
      {props.rows.slice(0, MOST).map((row, index) => (
        <span key={row.pod + row.node}>
          {index ? ", " : ""}
          {row.node ? <a href={nodeLink(row.node)}>{row.node}</a> : row.pod} <span class="soft">({row.state})</span>
        </span>
      ))}
      {props.rows.length > MOST ? <span class="soft"> and {props.rows.length - MOST} more</span> : null}
    </p>
  );
}

/** Equal pods share a line: a pending gang of 512 is one fact. */
function PodList(props: { detail: Detail }) {
  const { detail } = props;
  const placed = detail.pods.filter((pod) => pod.node);
  const rest = new Map<string, number>();
  for (const pod of detail.pods) if (!pod.node) rest.set(pod.state, (rest.get(pod.state) ?? 0) + 1);
  if (detail.pods.length === 0) return <p class="soft">{detail.job.state === "finished" ? "It has ended: it has no pods any more." : "No pods."}</p>;
  return (
    <>
      {[...rest].map(([state, number]) => (
        <p key={state}><Tag state={state} /> {plural(number, "pod")} without a node</p>
      ))}
      {placed.length > 0 ? (
        <div class="table-frame" tabIndex={0} role="region" aria-label="Pods on nodes">
          <table>
            <thead>
              <tr><th scope="col">Pod</th><th scope="col">State</th><th scope="col">Node</th><th scope="col">Since</th></tr>
            </thead>
            <tbody>
              {placed.map((pod) => (
                <tr key={pod.pod}>
                  <th scope="row" class="cause">{pod.pod.slice(pod.pod.indexOf("/") + 1)}</th>
                  <td><Tag state={pod.state} /></td>
                  <td>
                    <a href={nodeLink(pod.node ?? "")}>{pod.node}</a>
                    {pod.devices && pod.devices.length > 0 ? <span class="small soft"> <Names names={pod.devices.map((one) => one.device)} most={4} /></span> : null}
                  </td>
                  <td class="nowrap small">{dateTime(pod.since)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {detail.podsTotal > detail.pods.length ? <p class="small soft">The first {count(detail.pods.length)} of {plural(detail.podsTotal, "pod")}.</p> : null}
    </>
  );
}
