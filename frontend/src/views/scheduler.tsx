/** The scheduler itself: cycle times, backlog, API, errors, leader, policy, and differences of the shadow policy. */

import type { ComponentChildren } from "preact";
import type { Schemas } from "../api/client";
import { useGet } from "../api/use";
import { count, plural } from "../format/amounts";
import { dateTime } from "../format/time";
import { Loading, Names, Panel, Problem, Tag, Tiles, View } from "../ui/basics";
import { Chart, valueText } from "../ui/chart";

type Page = Schemas["SchedulerPage"];

export function SchedulerView() {
  const { data, error, reload } = useGet("/api/v1/scheduler", {}, ["scheduler"]);
  if (!data) {
    return (
      <View title="Scheduler">
        {error ? <Problem error={error} retry={reload} what="The scheduler's state" /> : <Loading what="the scheduler's state" />}
      </View>
    );
  }
  return (
    <View title="Scheduler" note={leader(data.leads)}>
      {error ? <Problem error={error} retry={reload} what="The scheduler's state" /> : null}
      <Tiles tiles={tiles(data)} />
      <Panel title="Cycle times" note={data.cycles.count > 0 ? `${plural(data.cycles.count, "cycle")}; the longest took ${milli(data.cycles.longest)}` : "No cycle yet"}>
        <Chart series={data.cycles.overTime} />
      </Panel>
      <Panel title="Recent errors and warnings"><Problems rows={data.problems} /></Panel>
      <div class="columns">
        <PolicyPanel policy={data.policy} />
        <Shadow page={data} />
      </div>
      <Panel title="Objects">
        {Object.keys(data.objects).length === 0 ? <p class="soft">None is known yet.</p> : null}
        <ul class="object-counts">
          {Object.entries(data.objects).sort((a, b) => b[1] - a[1]).map(([kind, number]) => <li key={kind}><b>{count(number)}</b> {kind}</li>)}
        </ul>
      </Panel>
    </View>
  );
}

function leader(leads: boolean | null): string {
  if (leads === null) return "Runs without leader election";
  return leads ? "This replica is the leader" : "Another replica is the leader; this one is on standby";
}

const milli = (value: number): string => (value > 0 && value < 0.01 ? "<0.01 ms" : valueText("milliseconds", value));

function tiles(data: Page): (readonly [string, ComponentChildren, ComponentChildren?])[] {
  const cycle = (value: number): string => (data.cycles.count > 0 ? milli(value) : "–");
  const found: (readonly [string, ComponentChildren, ComponentChildren?])[] = [
    ["Last cycle", cycle(data.cycles.last)],
    ["Median cycle", cycle(data.cycles.median)],
    ["99% of cycles", cycle(data.cycles.p99), data.cycles.count > 0 ? "or less" : ""],
    ["Backlog", count(data.backlog.waitingJobs), `jobs, ${plural(data.backlog.waitingPods, "pod")}`],
  ];
  if (data.backlog.unanswered !== null && data.backlog.unanswered !== undefined) found.push(["Unanswered writes", count(data.backlog.unanswered)]);
  if (data.api) {
    found.push(
      ["API latency", valueText("seconds", data.api.mean), `99% below ${valueText("seconds", data.api.p99)}`],
      ["API writes", count(data.api.requests), data.api.failed ? `${count(data.api.failed)} failed` : "none failed"],
    );
  }
  found.push(["Viewers", count(data.viewers)]);
  return found;
}

function Problems(props: { rows: Page["problems"] }) {
  if (props.rows.length === 0) return <p class="soft">None.</p>;
  return (
    <ol class="story">
      {props.rows.map((row, index) => (
        <li key={index}>
          <time dateTime={row.at}>{dateTime(row.at)}</time>
          <Tag state={row.level} />
          <span>{row.text}{(row.count ?? 1) > 1 ? <span class="soft"> ({plural(row.count ?? 1, "time")})</span> : null}</span>
        </li>
      ))}
    </ol>
  );
}

function PolicyPanel(props: { policy: Page["policy"] }) {
  const { policy } = props;
  return (
    <Panel title="Policy in force" note={<>{policy.source}{policy.since ? `, since ${dateTime(policy.since)}` : ""}</>}>
      <div class="stack">
        <p><span class="soft">Actions:</span> {policy.actions.join(" → ")}</p>
        {policy.plugins.map((tier, index) => (
          <p key={index}><span class="soft">Tier {index + 1}:</span> {tier.join(", ")}</p>
        ))}
        <details>
          <summary>Whole policy</summary>
          <pre tabIndex={0} aria-label="The policy as YAML">{policy.text}</pre>
        </details>
      </div>
    </Panel>
  );
}

function Shadow(props: { page: Page }) {
  const { shadowPolicy, shadow } = props.page;
  if (!shadowPolicy) {
    return (
      <Panel title="Shadow policy">
        <p class="soft">None. With <code>--shadow-policy FILE</code> the scheduler also decides by another policy and shows here where it differs.</p>
      </Panel>
    );
  }
  return (
    <Panel title="Shadow policy" note={shadowPolicy}>
      {shadow.length === 0 ? (
        <p class="soft">It has decided the same so far.</p>
      ) : (
        <div class="table-frame" tabIndex={0} role="region" aria-label="Differences of the shadow policy">
          <table>
            <thead><tr><th scope="col">Cycle</th><th scope="col">Different bindings</th><th scope="col">Different evictions</th></tr></thead>
            <tbody>
              {shadow.map((row) => (
                <tr key={row.cycle}>
                  <th scope="row" class="nowrap">{count(row.cycle)} <span class="soft small">{dateTime(row.at)}</span></th>
                  <td><Names names={row.bindings} /></td>
                  <td><Names names={row.evictions} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
