/** Bars of a queue's resource: allocated and reserved as areas, deserved, guarantee and capability as marks. */

import { percent, shown, shortName } from "../format/amounts";

export interface Amounts {
  readonly resource: string;
  readonly allocated: number;
  readonly reserved: number;
  readonly deserved: number;
  readonly guarantee: number;
  readonly capability: number | null;
  readonly borrowed: number;
  readonly requested: number;
}

/** `capacity` of the cluster is the scale for all queues, so that lengths can be compared. */
export function ShareBar(props: { amounts: Amounts; capacity: number }) {
  const { amounts } = props;
  const { resource } = amounts;
  const most = Math.max(
    props.capacity, amounts.allocated + amounts.reserved, amounts.deserved, amounts.capability ?? 0, amounts.guarantee, 1e-9,
  );
  const at = (value: number): string => `${Math.min(100, (value / most) * 100)}%`;
  const within = Math.min(amounts.allocated, Math.max(0, amounts.allocated - amounts.borrowed));
  return (
    <div class="share">
      <div class="share-name">
        <span title={resource}>{shortName(resource)}</span>
        <span class="number">{percent(amounts.allocated / (props.capacity || most))}</span>
      </div>
      <div class="share-track" role="img" aria-label={sentence(amounts)}>
        <span class="fill" style={{ width: at(within) }} />
        <span class="fill over" style={{ left: at(within), width: at(amounts.allocated - within) }} />
        <span class="fill kept" style={{ left: at(amounts.allocated), width: at(amounts.reserved) }} />
        {amounts.guarantee > 0 ? <span class="mark guarantee" style={{ left: at(amounts.guarantee) }} /> : null}
        {amounts.capability !== null ? <span class="mark capability" style={{ left: at(amounts.capability) }} /> : null}
        <span class="mark deserved" style={{ left: at(amounts.deserved) }} />
      </div>
      <div class="share-text small" aria-hidden="true">
        <b>{shown(resource, amounts.allocated)}</b>
        {amounts.reserved > 0 ? ` + ${shown(resource, amounts.reserved)} reserved` : ""}
        <span class="soft"> of {shown(resource, amounts.deserved)} deserved</span>
        {amounts.borrowed > 0 ? <span class="over-text"> · {shown(resource, amounts.borrowed)} borrowed</span> : null}
        {amounts.guarantee > 0 ? <span class="soft"> · guarantee {shown(resource, amounts.guarantee)}</span> : null}
        {amounts.capability !== null ? <span class="soft"> · capability {shown(resource, amounts.capability)}</span> : null}
        {amounts.requested > 0 ? <span class="soft"> · {shown(resource, amounts.requested)} requested</span> : null}
      </div>
    </div>
  );
}

export function sentence(amounts: Amounts): string {
  const say = (value: number): string => shown(amounts.resource, value);
  const parts = [`${say(amounts.allocated)} allocated`, `${say(amounts.deserved)} deserved`];
  if (amounts.reserved > 0) parts.push(`${say(amounts.reserved)} reserved`);
  if (amounts.borrowed > 0) parts.push(`${say(amounts.borrowed)} borrowed`);
  if (amounts.guarantee > 0) parts.push(`guarantee ${say(amounts.guarantee)}`);
  parts.push(amounts.capability === null ? "no capability limit" : `capability ${say(amounts.capability)}`);
  if (amounts.requested > 0) parts.push(`${say(amounts.requested)} requested`);
  return `${amounts.resource}: ${parts.join(", ")}`;
}

export function ShareLegend() {
  return (
    <ul class="legend" aria-label="Legend of the bars">
      <li><span class="key fill" /> allocated</li>
      <li><span class="key fill over" /> borrowed from other queues</li>
      <li><span class="key fill kept" /> reserved</li>
      <li><span class="key mark deserved" /> deserved</li>
      <li><span class="key mark guarantee" /> guarantee</li>
      <li><span class="key mark capability" /> capability</li>
    </ul>
  );
}

/** A plain bar: a part of a whole, with its figure beside it. */
export function Meter(props: { part: number; label: string; text?: string }) {
  const part = Math.max(0, Math.min(1, Number.isFinite(props.part) ? props.part : 0));
  return (
    <span class="meter" role="img" aria-label={`${props.label}: ${props.text ?? percent(props.part)}`}>
      <span class="meter-track">
        <span class={props.part > 1 ? "fill over" : "fill"} style={{ width: `${part * 100}%` }} />
      </span>
      <span class="number" aria-hidden="true">{props.text ?? percent(props.part)}</span>
    </span>
  );
}
