/** The tree of queues: allocated and deserved amounts, loans between queues, and their namespaces. */

import type { Schemas } from "../api/client";
import { useGet, useLink } from "../api/use";
import { href, useQuery } from "../app/route";
import { byRank, count, percent, plural, shortName, shown } from "../format/amounts";
import { Empty, Loading, Panel, Problem, Tag, View } from "../ui/basics";
import { Meter, ShareBar, ShareLegend } from "../ui/bars";
import { Chart } from "../ui/chart";

type Queue = Schemas["QueueNode"];

export function QueuesView() {
  const [query, change] = useQuery();
  const { data, error, reload } = useGet("/api/v1/queues", {}, ["queues"]);
  const { summary } = useLink();
  const capacity = new Map(summary?.resources.map((one) => [one.name, one.capacity]) ?? []);
  const chosen = query.get("queue");
  const unused = query.get("unused") === "shown";
  const queues = data?.queues ?? [];
  const used = new Set(queues.filter((queue) => queue.name === chosen || isUsed(queue, queues)));
  const all = unused || used.size === 0;
  const shownQueues = all ? queues : queues.filter((queue) => used.has(queue));
  const hidden = queues.length - used.size;
  return (
    <View title="Queues" note={data ? plural(data.queues.length, "queue") : null}>
      {error ? <Problem error={error} retry={reload} what="The queues" /> : null}
      {!data && !error ? <Loading what="queues" /> : null}
      {data && queues.length === 0 ? <div class="panel"><Empty title="No queues">A job without a queue goes to the queue named default.</Empty></div> : null}
      {data && queues.length > 0 && used.size === 0 ? (
        <div class="panel">
          <Empty title="No queue has jobs">Queues appear here when jobs name them; a job without a queue goes to the queue default.</Empty>
        </div>
      ) : null}
      {used.size > 0 ? <ShareLegend /> : null}
      {used.size > 0 ? (
        <p class="small soft">Of the namespaces of a queue, the smallest weighted share (dominant share / weight, with what is reserved) is served first.</p>
      ) : null}
      <ul class="queue-tree">
        {shownQueues.map((queue) => (
          <li key={queue.name} data-depth={Math.min(queue.depth, 6)}>
            <QueueCard
              queue={queue}
              capacity={capacity}
              open={queue.name === chosen}
              toggle={() => change({ queue: queue.name === chosen ? null : queue.name })}
            />
          </li>
        ))}
      </ul>
      {used.size > 0 && hidden > 0 ? (
        <p>
          <button type="button" class="plain" onClick={() => change({ unused: unused ? null : "shown" })}>
            {unused ? "Hide queues without jobs" : `Show ${plural(hidden, "queue")} without jobs`}
          </button>
        </p>
      ) : null}
      {data && used.size > 0 ? <Loans loans={data.loans} /> : null}
    </View>
  );
}

function isUsed(queue: Queue, all: readonly Queue[]): boolean {
  const own = queue.waitingJobs + queue.runningJobs > 0 || queue.amounts.some((one) => one.allocated || one.reserved || one.requested || one.guarantee);
  return own || all.some((other) => other.parent === queue.name && isUsed(other, all));
}

function QueueCard(props: { queue: Queue; capacity: ReadonlyMap<string, number>; open: boolean; toggle: () => void }) {
  const { queue } = props;
  const amounts = [...queue.amounts].sort((a, b) => byRank(a.resource, b.resource));
  return (
    <article class="panel queue" aria-label={`Queue ${queue.name}`}>
      <header>
        <h2>{queue.name}</h2>
        {queue.state === "Open" ? null : <Tag state={queue.state} text={queue.state.toLowerCase()} />}
        <p>
          weight {count(queue.weight)}
          {" · "}
          {percent(queue.dominantShare)} of the cluster
          {" · "}
          <a href={href(["jobs"], { queue: queue.name, state: "waiting" })}>{count(queue.waitingJobs)} waiting</a>
          {" · "}
          <a href={href(["jobs"], { queue: queue.name, state: "running" })}>{count(queue.runningJobs)} running</a>
          {queue.reclaimable ? "" : " · not reclaimable"}
        </p>
        <div class="actions">
          <button type="button" class="plain" aria-expanded={props.open} onClick={props.toggle}>
            {props.open ? "Hide history" : "Over time"}
          </button>
        </div>
      </header>
      <div class="shares">
        {amounts.map((one) => <ShareBar key={one.resource} amounts={one} capacity={props.capacity.get(one.resource) ?? 0} />)}
        {amounts.length === 0 ? <p class="soft">It has nothing allocated and deserves nothing.</p> : null}
      </div>
      {queue.namespaces.length > 0 ? <Namespaces queue={queue} /> : null}
      {props.open ? <QueueOverTime name={queue.name} /> : null}
    </article>
  );
}

function Namespaces(props: { queue: Queue }) {
  const rows = [...props.queue.namespaces].sort((a, b) => a.weightedShare - b.weightedShare || a.namespace.localeCompare(b.namespace));
  const most = Math.max(1e-9, ...rows.map((row) => row.weightedShare));
  return (
    <div class="scroll-x namespaces" tabIndex={0} role="region" aria-label={`Namespaces in queue ${props.queue.name}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Namespace</th>
            <th scope="col" class="number">Weight</th>
            <th scope="col" class="number">Dominant share</th>
            <th scope="col" class="wide">Weighted share</th>
            <th scope="col">Allocated</th>
            <th scope="col" class="number">Waiting</th>
            <th scope="col" class="number">Running</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.namespace}>
              <th scope="row"><a href={href(["jobs"], { queue: props.queue.name, namespace: row.namespace })}>{row.namespace}</a></th>
              <td class="number">{count(row.weight)}</td>
              <td class="number">{percent(row.share)}</td>
              <td><Meter part={row.weightedShare / most} label="Weighted share" text={percent(row.weightedShare)} /></td>
              <td class="small">{held(row.allocated)}</td>
              <td class="number">{count(row.waitingJobs)}</td>
              <td class="number">{count(row.runningJobs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function held(allocated: Readonly<Record<string, number>>): string {
  const names = Object.keys(allocated).filter((name) => name !== "pods" && (allocated[name] ?? 0) > 0).sort(byRank);
  return names.map((name) => `${shown(name, allocated[name])} ${shortName(name)}`).join(", ") || "nothing";
}

function QueueOverTime(props: { name: string }) {
  const { data, error, reload } = useGet("/api/v1/queues/{name}/history", { path: { name: props.name } }, ["history"]);
  if (error) return error.status === 404 ? <p class="soft">Nothing was recorded of this queue.</p> : <Problem error={error} retry={reload} what="The history" />;
  if (!data) return <Loading what="the history" />;
  return (
    <div class="columns charts three">
      {[data.allocated, data.deserved, data.namespaces].map((series) => (
        <section key={series.title} aria-label={series.title}>
          <h3>{series.title}</h3>
          <Chart series={series} height={150} />
        </section>
      ))}
    </div>
  );
}

function Loans(props: { loans: readonly Schemas["LentAmount"][] }) {
  const loans = [...props.loans].sort((a, b) => byRank(a.resource, b.resource) || b.amount - a.amount);
  return (
    <Panel title="Who borrows from whom" note="In proportion to the unused entitlement of the lenders">
      {loans.length === 0 ? (
        <p class="soft">No queue borrows.</p>
      ) : (
        <table>
          <thead>
            <tr><th scope="col">Borrower</th><th scope="col">Lender</th><th scope="col">Resource</th><th scope="col" class="number">Amount</th></tr>
          </thead>
          <tbody>
            {loans.map((loan) => (
              <tr key={loan.resource + loan.lender + loan.borrower}>
                <th scope="row">{loan.borrower}</th>
                <td>{loan.lender}</td>
                <td>{loan.resource}</td>
                <td class="number">{shown(loan.resource, loan.amount)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
