/** One job: reason, what would start it, when it starts, queue position, pods and history. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "../api/client";
import { useGet, useLink } from "../api/use";
import { href } from "../app/route";
import { byRank, count, plural, shortName, shown } from "../format/amounts";
import { between, dateTime, duration, readable } from "../format/time";
import { Empty, Facts, Loading, Panel, Problem, Prose, Tag, View } from "../ui/basics";
import { EvictionTable } from "./eviction_table";
import { JobActions } from "./job_actions";
import { LookingAhead, StartsNow, StartsWhen } from "./job_answers";
import { JobOrderPanel } from "./job_order";
import { JobPods } from "./job_pods";
import { stateOf } from "./job_cells";
import { createdText, startedText } from "./job_times";

type Detail = Schemas["JobDetail"];

export function JobView(props: { job: string }) {
  const { data, error, reload } = useGet("/api/v1/jobs/{job}", { path: { job: props.job } }, ["jobs"]);
  if (!data) {
    return (
      <View title={props.job}>
        {error?.status === 404 ? (
          <div class="panel">
            <Empty title="There is no such job">
              It may have been deleted, or be in a namespace that you may not see. <a href={href(["jobs"])}>Show all jobs</a>
            </Empty>
          </div>
        ) : error ? (
          <Problem error={error} retry={reload} what="The job" />
        ) : (
          <Loading what="the job" />
        )}
      </View>
    );
  }
  const waits = data.job.state === "waiting" || (data.job.state === "running" && Boolean(data.job.reason));
  return (
    <div class="view">
      <Head detail={data} onActed={reload} />
      {waits ? <Answers job={props.job} detail={data} /> : null}
      <div class="columns">
        <Panel title="Pods" note={podsNote(data)}>
          <JobPods detail={data} />
        </Panel>
        <Panel title="Facts">
          <JobFacts detail={data} />
        </Panel>
      </div>
      {data.job.state === "waiting" ? <JobOrderPanel job={props.job} /> : null}
      {data.victims.length > 0 ? (
        <Panel title="Evicted for this job" note={plural(data.victims.length, "pod")}>
          <EvictionTable rows={data.victims} leaveOut="for" />
        </Panel>
      ) : null}
      {data.evictedBy.length > 0 ? (
        <Panel title="Evicted for others" note={plural(data.evictedBy.length, "pod")}>
          <EvictionTable rows={data.evictedBy} leaveOut="job" />
        </Panel>
      ) : null}
      <Panel title="History">
        <History rows={data.history} />
      </Panel>
      <Manifest job={props.job} />
    </div>
  );
}

function Head(props: { detail: Detail; onActed: () => void }) {
  const { detail } = props;
  const { job } = detail;
  const at = job.job.indexOf("/");
  return (
    <div class="job-head">
      <nav aria-label="Path" class="small">
        <a href={href(["jobs"])}>Jobs</a> <span aria-hidden="true">›</span>{" "}
        <a href={href(["jobs"], { queue: job.queue })}>{job.queue}</a>
      </nav>
      <div class="view-head">
        <h1>
          <span class="soft">{job.job.slice(0, at)}/</span>
          {job.job.slice(at + 1)}
        </h1>
        <Tag state={stateOf(job)} />
        {job.plannedStart && job.state === "waiting" ? <Tag state="planned" text="planned start" /> : null}
      </div>
      <p class="sentence"><Prose text={readable(detail.sentence)} /></p>
      <JobActions detail={detail} onActed={props.onActed} />
    </div>
  );
}

/**
 * The answers come one by one, each as soon as it is there: what would start it now, when it starts, and between which
 * times, which in a large cluster takes long. They are asked for again only when the reason changes.
 */
function Answers(props: { job: string; detail: Detail }) {
  const path = { job: props.job };
  const now = useGet("/api/v1/explanations/{job}", { path });
  const start = useGet(now.data || now.error ? "/api/v1/starts/{job}" : null, { path });
  const bounds = useGet(start.data?.forecast ? "/api/v1/starts/{job}" : null, { path, query: { bounds: true } });
  const reload = (): void => [now, start, bounds].forEach((one) => one.reload());
  const reason = `${props.detail.job.reason} ${props.detail.job.plannedStart ?? ""}`;
  const answered = useRef(reason);
  useEffect(() => {
    if (answered.current !== reason) reload();
    answered.current = reason;
  }, [reason]);
  const again = (
    <button type="button" class="plain" onClick={reload}>Work out again</button>
  );
  const shownStart = bounds.data ?? start.data;
  return (
    <div class="columns">
      <Panel title="What would start it now" actions={now.data ? again : null}>
        {now.data ? <StartsNow answer={now.data} /> : now.error ? <Problem error={now.error} retry={now.reload} what="The answer" /> : <Loading what="the answer" />}
      </Panel>
      <Panel title="When it starts">
        {shownStart ? (
          <StartsWhen answer={shownStart} created={props.detail.job.created} bounds={bounds.data ? "known" : bounds.error ? "failed" : "coming"} />
        ) : start.error ? (
          <Problem error={start.error} retry={start.reload} what="The answer" />
        ) : (
          <LookingAhead what="Computing the forecast" />
        )}
      </Panel>
    </div>
  );
}

function podsNote(detail: Detail): string {
  const { job } = detail;
  const parts = [`${count(job.placed ?? 0)} of ${count(job.pods)} on nodes`];
  if ((job.minimum ?? 1) > 1) parts.push(`starts with ${count(job.minimum ?? 1)} at once`);
  return parts.join(", ");
}

function JobFacts(props: { detail: Detail }) {
  const { detail } = props;
  const { job } = detail;
  const { now } = useLink();
  const facts: [string, ComponentChildren][] = [
    ["Queue", <a href={href(["queues"], { queue: job.queue })}>{job.queue}</a>],
    ["Namespace", <a href={href(["jobs"], { namespace: job.namespace })}>{job.namespace}</a>],
  ];
  if (job.position) facts.push(["Queue position", `${count(job.position)} of ${count(detail.queueWaiting)}`]);
  facts.push(["Priority", count(job.priority ?? 0)], ["Kind", job.kind]);
  facts.push(["Created", createdText(job, now)]);
  if (job.started) facts.push(["Started", startedText(job)]);
  if (job.ended) facts.push(["Ended", `${dateTime(job.ended)} (ran for ${duration(between(job.started, job.ended))})`]);
  if (detail.stopped) facts.push(["Stops", detail.stopped.text ?? ""]);
  for (const shape of detail.shapes) facts.push([shape.pods === 1 ? "Its pod requests" : `Each of ${count(shape.pods)} pods requests`, <Shape key={shape.selector} shape={shape} />]);
  const labels = Object.entries(detail.labels);
  if (labels.length > 0) facts.push(["Labels", <Labels labels={labels} />]);
  return <Facts facts={facts} />;
}

function Shape(props: { shape: Schemas["PodShape"] }) {
  const { shape } = props;
  const names = Object.keys(shape.requests).filter((name) => name !== "pods").sort(byRank);
  const parts = names.map((name) => `${shown(name, shape.requests[name])} ${shortName(name)}`);
  const devices = Object.entries(shape.devices ?? {}).map(([name, units]) => `${count(units)} of class ${name}`);
  return (
    <span>
      {[...parts, ...devices].join(", ") || "nothing"}
      {shape.selector ? <span class="soft">; {shape.selector}</span> : null}
    </span>
  );
}

function Labels(props: { labels: [string, string][] }) {
  return (
    <span class="label-list">
      {props.labels.map(([key, value]) => (
        <a key={key} class="mono small" href={href(["jobs"], { label: `${key}=${value}` })}>{key}={value}</a>
      ))}
    </span>
  );
}

function History(props: { rows: readonly Schemas["JobStateChange"][] }) {
  if (props.rows.length === 0) return <p class="soft">Nothing was recorded of it.</p>;
  return (
    <ol class="story">
      {props.rows.map((row, index) => (
        <li key={index}>
          <time dateTime={row.at}>{dateTime(row.at)}</time>
          <Tag state={row.state} />
          <span>{row.text}</span>
        </li>
      ))}
    </ol>
  );
}

function Manifest(props: { job: string }) {
  const [open, setOpen] = useState(false);
  const { data, error, reload } = useGet(open ? "/api/v1/manifests/{job}" : null, { path: { job: props.job } });
  return (
    <details class="panel" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><h2 class="inline">YAML</h2></summary>
      {data ? (
        <pre tabIndex={0} aria-label="The job's objects as YAML">{data.yaml}</pre>
      ) : error ? (
        <Problem error={error} retry={reload} what="The objects" />
      ) : open ? (
        <Loading what="the objects" />
      ) : null}
    </details>
  );
}
