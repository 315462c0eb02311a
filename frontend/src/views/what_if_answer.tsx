/** The difference that supposed changes make: in a sentence, in totals, by job and by queue. */

import type { ComponentChildren } from "preact";
import type { Schemas } from "../api/client";
import { count, percent, plural, shortName, shown } from "../format/amounts";
import { dateTime, duration } from "../format/time";
import { Names, Panel, Tag } from "../ui/basics";
import { JobLink } from "./job_cells";

type Answer = Schemas["WhatIfAnswer"];

export function WhatIfDifference(props: { answer: Answer }) {
  const { answer } = props;
  const when = answer.mode === "decide" ? "in the next cycle" : "in the simulation";
  return (
    <>
      <Panel title="The difference" note={`${when}, computed in ${duration(answer.seconds)}${answer.complete ? "" : "; stopped at its limit before the horizon"}`}>
        <div class="stack">
          <p class="sentence">{answer.sentence}</p>
          {answer.warnings.map((warning) => <p key={warning} class="problem small">{warning}</p>)}
          <Totals answer={answer} />
          {answer.evictions.length > 0 ? <p>{plural(answer.evictions.length, "pod")} evicted: <Names names={answer.evictions} most={8} /></p> : null}
        </div>
      </Panel>
      {answer.jobs.length > 0 ? <Jobs answer={answer} /> : null}
      {answer.queues.length > 0 ? <Queues answer={answer} /> : null}
    </>
  );
}

function Totals(props: { answer: Answer }) {
  const { before, after } = props.answer;
  const rows: [string, ComponentChildren, ComponentChildren][] = [
    ["Started jobs", count(before.started), count(after.started)],
    ["Pending jobs", count(before.waiting), count(after.waiting)],
    ["Pods evicted", count(before.evicted), count(after.evicted)],
  ];
  if (before.meanWaitSeconds != null || after.meanWaitSeconds != null) {
    rows.push(["Mean wait", duration(before.meanWaitSeconds), duration(after.meanWaitSeconds)]);
  }
  for (const name of Object.keys(after.utilisation ?? {})) {
    rows.push([`${shortName(name)} in use`, percent(before.utilisation?.[name] ?? 0), percent(after.utilisation?.[name] ?? 0)]);
  }
  return (
    <table class="totals">
      <thead><tr><th scope="col"><span class="hidden-text">What</span></th><th scope="col" class="number">without</th><th scope="col" class="number">with</th></tr></thead>
      <tbody>
        {rows.map(([name, one, other]) => (
          <tr key={name} class={one === other ? "soft" : undefined}>
            <th scope="row">{name}</th><td class="number">{one}</td><td class="number">{one === other ? "same" : <b>{other}</b>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Jobs(props: { answer: Answer }) {
  const { answer } = props;
  const simulated = answer.mode === "simulate";
  return (
    <Panel title="Jobs with a different outcome" note={answer.jobsTotal > answer.jobs.length ? `the first ${count(answer.jobs.length)} of ${count(answer.jobsTotal)}` : plural(answer.jobsTotal, "job")}>
      <div class="table-frame" tabIndex={0} role="region" aria-label="Jobs with a different outcome">
        <table>
          <thead>
            <tr>
              <th scope="col">Job</th><th scope="col">Queue</th><th scope="col">without</th><th scope="col">with</th>
              {simulated ? <th scope="col">Start</th> : null}<th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {answer.jobs.map((job) => (
              <tr key={job.job}>
                <th scope="row"><JobLink job={job.job} /></th>
                <td>{job.queue}</td>
                <td><Tag state={job.before} /></td>
                <td><Tag state={job.after} /></td>
                {simulated ? <td class="small">{dateTime(job.startAfter)} <Shift seconds={job.earlierSeconds} /></td> : null}
                <td class="small soft">{job.message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Shift(props: { seconds: number | null | undefined }) {
  if (!props.seconds) return null;
  return props.seconds > 0 ? <span class="earlier">▲ {duration(props.seconds)} earlier</span> : <span class="later">▼ {duration(-props.seconds)} later</span>;
}

function Queues(props: { answer: Answer }) {
  const change = (resource: string, before: number, after: number): ComponentChildren =>
    before === after ? <span class="soft">{shown(resource, after)}</span> : <>{shown(resource, before)} → <b>{shown(resource, after)}</b></>;
  return (
    <Panel title="Queues">
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Queues that differ">
        <table>
          <thead><tr><th scope="col">Queue</th><th scope="col">Resource</th><th scope="col" class="number">Deserved</th><th scope="col" class="number">Allocated</th></tr></thead>
          <tbody>
            {props.answer.queues.map((row) => (
              <tr key={row.queue + row.resource}>
                <th scope="row">{row.queue}</th><td>{shortName(row.resource)}</td>
                <td class="number">{change(row.resource, row.deservedBefore, row.deservedAfter)}</td>
                <td class="number">{change(row.resource, row.allocatedBefore, row.allocatedAfter)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
