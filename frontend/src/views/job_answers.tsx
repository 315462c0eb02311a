/** What would start a job now, and when it starts. */

import { useEffect, useState } from "preact/hooks";
import type { Schemas } from "../api/client";
import { useLink } from "../api/use";
import { plural } from "../format/amounts";
import { between, dateTime, duration, readable, seconds } from "../format/time";
import { Names, Prose } from "../ui/basics";

export function StartsNow(props: { answer: Schemas["JobExplanation"] }) {
  const found = props.answer.explanation.counterfactual;
  if (!found) return <p class="soft">It does not wait for a change.</p>;
  const failed = found.tried.filter((trial) => !trial.helped).map((trial) => trial.text);
  return (
    <div class="stack">
      {found.changes.length > 0 ? (
        <ul class={found.changes.length > 1 ? "changes any" : "changes one"}>
          {found.changes.map((change) => (
            <li key={change.text}>
              <Prose text={started(readable(change.text))} />
              {change.effect === "evicts" ? <span class="soft"> (it starts when the pods evicted for it are gone)</span> : null}
            </li>
          ))}
        </ul>
      ) : (
        <p>None of the changes that were tried.</p>
      )}
      {failed.length > 0 ? <p class="small soft">Tried without effect: {failed.join(", ")}.</p> : null}
      <p class="small soft">
        Found by deciding {plural(found.decisions, "time")} on a changed copy
        {found.complete === false ? "; the search ended at its limit" : ""}.
        {found.changes.length > 1 ? " Any one of these is enough; each is the smallest of its kind that works." : ""}
      </p>
    </div>
  );
}

/** Shows the elapsed time: in a large cluster a forecast takes a while. */
export function LookingAhead(props: { what: string }) {
  const [passed, setPassed] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setPassed((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class="loading small soft">
      <span role="status">{props.what} …</span>
      {passed > 1 ? <span aria-hidden="true"> {duration(passed)}</span> : null}
    </p>
  );
}

export function StartsWhen(props: { answer: Schemas["JobStart"]; created: string | null; bounds: "known" | "coming" | "failed" }) {
  const { forecast, interval } = props.answer;
  const { now } = useLink();
  if (!forecast) return <p class="soft">It does not wait any more.</p>;
  const start = forecast.start ?? null;
  return (
    <div class="stack">
      {start ? (
        <p class="big-time">
          <time dateTime={start}>{dateTime(start)}</time>
          <span class="soft"> in {duration(Math.max(0, between(now, start) ?? 0))}</span>
          {forecast.estimate ? <span class="tag warn"><span aria-hidden="true">~</span> estimate</span> : null}
        </p>
      ) : null}
      {interval ? <Interval interval={interval} now={now} created={props.created} /> : null}
      {props.bounds === "coming" ? <LookingAhead what="Computing the earliest and latest start" /> : null}
      {props.bounds === "failed" ? <p class="small soft">The earliest and the latest start could not be worked out in time.</p> : null}
      <p><Prose text={ended(forecast.text)} /></p>
      {forecast.unknownEnds && forecast.unknownEnds.length > 0 ? (
        <p class="small soft">
          No known end: <Names names={forecast.unknownEnds.map((end) => end.pod)} />
          {(forecast.unknownCount ?? 0) > forecast.unknownEnds.length ? ` (${forecast.unknownCount} in all)` : ""}.
        </p>
      ) : null}
      {forecast.decisions ? (
        <p class="small soft">Found by deciding {plural(forecast.decisions, "time")} on a copy rolled forward in time.</p>
      ) : null}
    </div>
  );
}

/** From the earliest to the latest start on a line that begins when the job was created. */
function Interval(props: { interval: Schemas["StartInterval"]; now: string; created: string | null }) {
  const { interval } = props;
  const from = seconds(props.created);
  const times = [interval.earliest, interval.start, interval.latest].map(seconds).filter(Number.isFinite);
  if (times.length === 0 || !Number.isFinite(from)) return null;
  const until = Math.max(...times, seconds(props.now)) + 1;
  const at = (time: string | null | undefined, other: number): string => {
    const value = seconds(time);
    return `${(((Number.isFinite(value) ? value : other) - from) / (until - from)) * 100}%`;
  };
  const left = at(interval.earliest ?? interval.start, from);
  const right = at(interval.latest, until);
  const text = [
    interval.earliest ? `at the earliest ${dateTime(interval.earliest)}` : "",
    interval.latest ? `at the latest ${dateTime(interval.latest)}` : "no latest start is known",
  ].filter(Boolean).join(", ");
  return (
    <div class="interval-block">
      <div class="interval" role="img" aria-label={text}>
        <span class="waited" style={{ width: at(props.now, from) }} />
        <span class={interval.latest ? "between" : "between open"} style={{ left, width: `calc(${right} - ${left})` }} />
        {interval.start ? <span class="mark deserved" style={{ left: at(interval.start, until) }} /> : null}
      </div>
      <p class="small soft">{text}</p>
    </div>
  );
}

function started(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function ended(text: string): string {
  const first = started(readable(text));
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
