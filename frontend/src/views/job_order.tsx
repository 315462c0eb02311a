/** The order broken down key by key, beside the jobs before and after. */

import type { Schemas } from "../api/client";
import { useGet } from "../api/use";
import { count } from "../format/amounts";
import { readable } from "../format/time";
import { Loading, Panel, Problem } from "../ui/basics";
import { JobLink } from "./job_cells";

export function JobOrderPanel(props: { job: string }) {
  const { data, error, reload } = useGet("/api/v1/orders/{job}", { path: { job: props.job } }, ["jobs"]);
  if (error?.status === 422) return null;
  const order = data?.order;
  const note = order
    ? `${count(order.position)} of ${count(order.of)} in queue ${order.queue}, ${count(order.place)} of ${count(order.places)} over all queues`
    : undefined;
  return (
    <Panel title="Queue position, key by key" note={note}>
      {order ? <OrderTable order={order} /> : error ? <Problem error={error} retry={reload} what="The order" /> : <Loading what="the order" />}
    </Panel>
  );
}

function OrderTable(props: { order: Schemas["JobOrder"] }) {
  const { order } = props;
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Keys of the order">
      <table class="order">
        <thead>
          <tr>
            <th scope="col" class="level">Level</th>
            <th scope="col">Key</th>
            <th scope="col">this job</th>
            {order.before ? <th scope="col">before: <JobLink job={order.before} /></th> : null}
            {order.after ? <th scope="col">after: <JobLink job={order.after} /></th> : null}
          </tr>
        </thead>
        <tbody>
          {order.keys.map((key, index) => (
            <tr key={index}>
              <td class="soft level">{key.level}</td>
              <th scope="row">{key.key} <span class="soft small">{key.plugin}</span></th>
              <td><b>{readable(key.own)}</b></td>
              {order.before ? <Compared text={key.before} decides={key.decides?.includes("before") ?? false} sign="▲" says="decides: goes first" /> : null}
              {order.after ? <Compared text={key.after} decides={key.decides?.includes("after") ?? false} sign="▼" says="decides: comes later" /> : null}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Compared(props: { text: string | null | undefined; decides: boolean; sign: string; says: string }) {
  return (
    <td class={props.decides ? "decides" : undefined}>
      {readable(props.text ?? "")}
      {props.decides ? <span class="small"> <span aria-hidden="true">{props.sign}</span> {props.says}</span> : null}
    </td>
  );
}
