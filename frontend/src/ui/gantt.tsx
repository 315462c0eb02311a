/** Rows over time: what ran or runs on nodes, is reserved, is planned. Each kind has a pattern of its own. */

import type { Schemas } from "../api/client";
import { dateTime, duration, fromSeconds, timeMark, timeStep } from "../format/time";
import { href } from "../app/route";
import { lanes } from "./lanes";
import { useSize } from "./size";

type Span = Schemas["TimelineSpan"];
type Node = Schemas["TimelineNode"];

const LANE = 16;
const PAD = 4;
const AXIS = 22;
const LETTER = 6.2;

/** `now` is null in a report: all is past, the whole time is shown, and jobs have no view to link to. */
export function Gantt(props: { nodes: readonly Node[]; start: number; end: number; now: number | null; rows?: "nodes" | "jobs" }) {
  const [frame, size] = useSize<HTMLDivElement>();
  const label = size.width < 600 ? 84 : 150;
  const width = Math.max(100, size.width - label);
  const { now } = props;
  const start = now === null ? props.start : firstTime(props.nodes, props.start, now);
  const span = Math.max(1, props.end - start);
  const at = (time: number): number => label + ((Math.max(start, Math.min(props.end, time)) - start) / span) * width;
  let y = AXIS;
  const rows = props.nodes.map((node) => {
    const placed = lanes(node.spans);
    const row = { node, placed, y, height: placed.count * LANE + PAD };
    y += row.height;
    return row;
  });
  const ticks = tickTimes(start, props.end, Math.max(2, Math.floor(width / 110)));
  return (
    <div ref={frame} class="gantt">
      <svg width={size.width || 800} height={y + 2} role="group" aria-label={`Timeline of ${props.nodes.length} ${props.rows ?? "nodes"}`}>
        <Patterns />
        {ticks.map((time) => (
          <g key={time} class="tick">
            <line x1={at(time)} x2={at(time)} y1={AXIS - 4} y2={y} />
            <text x={at(time) + 3} y={12}>{timeMark(time)}</text>
          </g>
        ))}
        {rows.map((row, index) => (
          <g key={row.node.name}>
            {index % 2 ? <rect class="stripe" x={0} y={row.y} width={label + width} height={row.height} /> : null}
            <text class="node" x={2} y={row.y + 13}>{clipped(row.node.name, label / 7.2)}</text>
            {row.node.spans.map((one, number) => (
              <Bar
                key={`${one.kind}${one.job}${one.start}`}
                span={one}
                x={at(one.start)}
                end={at(one.end ?? props.end)}
                y={row.y + (row.placed.lane[number] ?? 0) * LANE + 2}
                text={props.rows === "jobs" ? reservationText(one) : spanText(one, row.node.name, now)}
                linked={now !== null}
                nowX={at(now ?? props.end)}
              />
            ))}
          </g>
        ))}
        {now === null ? null : (
          <>
            <line class="now" x1={at(now)} x2={at(now)} y1={AXIS - 8} y2={y} />
            <text class="now-text" x={at(now) + 3} y={AXIS - 1}>now</text>
          </>
        )}
      </svg>
    </div>
  );
}

function Bar(props: { span: Span; x: number; end: number; y: number; text: string; linked: boolean; nowX: number }) {
  const { span, text } = props;
  const width = Math.max(2, props.end - props.x);
  const ahead = span.kind === "running" ? Math.max(0, props.x + width - Math.max(props.nowX, props.x)) : 0;
  const [namespace = "", name = ""] = span.job.split("/", 2);
  const passed = width - ahead;
  const isAhead = ahead > 0 && passed < name.length * LETTER + 8; // there is no room for it before now
  const room = (isAhead ? ahead : passed) - 8;
  const shape = (
    <>
      <title aria-hidden="true">{text}</title>
      <rect class={`span ${span.kind}`} x={props.x} y={props.y} width={width} height={LANE - 3} rx={2} />
      {span.kind === "running" ? null : <rect class={`over ${span.kind}`} x={props.x} y={props.y} width={width} height={LANE - 3} rx={2} />}
      {ahead > 1 ? <rect class="ahead" x={props.x + width - ahead} y={props.y} width={ahead} height={LANE - 3} rx={2} /> : null}
    </>
  );
  return (
    <>
      {props.linked ? (
        <a href={href(["jobs", namespace, name])} aria-label={text} tabindex={span.kind === "running" ? -1 : 0}>{shape}</a>
      ) : (
        <g role="img" aria-label={text}>{shape}</g>
      )}
      {room > 36 ? (
        <text aria-hidden="true" class={`name ${isAhead ? "coming" : span.kind}`} x={props.x + (isAhead ? passed : 0) + 4} y={props.y + 10}>
          {clipped(name, room / LETTER)}
        </text>
      ) : null}
      {span.end === null ? <text aria-hidden="true" class="open" x={props.end - 9} y={props.y + 10}>›</text> : null}
    </>
  );
}

function reservationText(span: Span): string {
  const nodes = span.pods === 1 ? "1 node" : `${span.pods} nodes`;
  return `${nodes} reserved for ${span.job} from ${dateTime(fromSeconds(span.start))} until ${dateTime(fromSeconds(span.end ?? span.start))}`;
}

export function spanText(span: Span, node: string, now: number | null): string {
  if (span.kind === "away") return `${node} was away from ${dateTime(fromSeconds(span.start))} until ${dateTime(fromSeconds(span.end ?? span.start))}`;
  const pods = span.pods === 1 ? "1 pod" : `${span.pods} pods`;
  const from = dateTime(fromSeconds(span.start));
  const until = span.end === null ? "no known end" : `until ${dateTime(fromSeconds(span.end))}${span.isEstimate ? " (estimate)" : ""}`;
  const left = now !== null && span.end !== null && span.start <= now && span.end > now ? `, ${duration(span.end - now)} left` : "";
  const kind = now === null && span.kind === "running" ? "ran" : span.kind;
  return `${span.job} on ${node}: ${kind}, ${pods}, from ${from}, ${until}${left}`;
}

/** The left edge: shortly before the first span. */
export function firstTime(nodes: readonly Node[], start: number, now: number): number {
  let first = now;
  for (const node of nodes) for (const span of node.spans) first = Math.min(first, span.start);
  return Math.max(start, first - Math.max(60, (now - first) * 0.05));
}

export function tickTimes(start: number, end: number, most: number): number[] {
  const step = timeStep(end - start, most);
  const ticks: number[] = [];
  for (let time = Math.ceil(start / step) * step; time < end; time += step) ticks.push(time);
  return ticks;
}

function clipped(text: string, most: number): string {
  const size = Math.max(1, Math.floor(most));
  return text.length <= size ? text : `${text.slice(0, Math.max(1, size - 1))}…`;
}

function Patterns() {
  return (
    <defs>
      <pattern id="gantt-reserved" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <line class="pattern-line" x1="0" y1="0" x2="0" y2="6" />
      </pattern>
      <pattern id="gantt-away" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
        <line class="pattern-away" x1="0" y1="0" x2="0" y2="5" />
      </pattern>
      <pattern id="gantt-planned" width="5" height="5" patternUnits="userSpaceOnUse">
        <circle class="pattern-dot" cx="2" cy="2" r="1" />
      </pattern>
    </defs>
  );
}

export function RecordedLegend() {
  return (
    <ul class="legend" aria-label="Legend of the timeline">
      <li><span class="key gantt-running" /> ran</li>
      <li><span class="key gantt-evicted" /> ran until it was evicted</li>
      <li><span class="key gantt-away" /> node was away</li>
    </ul>
  );
}

export function GanttLegend() {
  return (
    <ul class="legend" aria-label="Legend of the timeline">
      <li><span class="key gantt-running" /> ran or runs</li>
      <li><span class="key gantt-ahead" /> expected to run</li>
      <li><span class="key gantt-reserved" /> reserved</li>
      <li><span class="key gantt-planned" /> planned start</li>
      <li>› no known end</li>
    </ul>
  );
}
