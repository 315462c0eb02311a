/** Small parts shared by all views. */

import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";

interface HasChildren {
  readonly children?: ComponentChildren;
}

export function View(props: HasChildren & { title: string; note?: ComponentChildren }) {
  return (
    <div class="view">
      <div class="view-head">
        <h1>{props.title}</h1>
        {props.note ? <p>{props.note}</p> : null}
      </div>
      {props.children}
    </div>
  );
}

export function Panel(props: HasChildren & { title: string; note?: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <section class="panel" aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        {props.note ? <p>{props.note}</p> : null}
        {props.actions ? <div class="actions">{props.actions}</div> : null}
      </header>
      {props.children}
    </section>
  );
}

/** Nothing to show: says why, and what to do. */
export function Empty(props: HasChildren & { title: string }) {
  return (
    <div class="empty">
      <strong>{props.title}</strong>
      {props.children ? <div>{props.children}</div> : null}
    </div>
  );
}

/** A failed request. Missing permission is no error to retry, so it has a calm message and no button. */
export function Problem(props: { error: ApiError; retry: () => void; what: string }) {
  if (props.error.status === 403) {
    return (
      <div class="panel">
        <Empty title="You do not have access">{props.error.message}</Empty>
      </div>
    );
  }
  return (
    <div class="banner bad" role="alert">
      <span>
        <strong>{props.what} could not be loaded.</strong> {props.error.message}
      </span>
      <button type="button" onClick={props.retry}>
        Try again
      </button>
    </div>
  );
}

export function Loading(props: { what: string }) {
  return (
    <p class="loading soft" role="status">
      Loading {props.what} …
    </p>
  );
}

const STATES: Readonly<Record<string, { sign: string; tone: string }>> = {
  waiting: { sign: "○", tone: "warn" },
  starving: { sign: "◆", tone: "bad" },
  held: { sign: "‖", tone: "calm" },
  gated: { sign: "‖", tone: "calm" },
  starting: { sign: "◐", tone: "good" },
  running: { sign: "●", tone: "good" },
  finished: { sign: "✓", tone: "calm" },
  succeeded: { sign: "✓", tone: "good" },
  failed: { sign: "✕", tone: "bad" },
  terminating: { sign: "◌", tone: "warn" },
  reserved: { sign: "▤", tone: "info" },
  allocated: { sign: "▣", tone: "info" },
  nominated: { sign: "▷", tone: "info" },
  planned: { sign: "▷", tone: "info" },
  evicted: { sign: "✕", tone: "bad" },
  lost: { sign: "✕", tone: "bad" },
  refused: { sign: "✕", tone: "bad" },
  deleted: { sign: "–", tone: "calm" },
  submitted: { sign: "+", tone: "calm" },
  placed: { sign: "●", tone: "good" },
  released: { sign: "▢", tone: "calm" },
  changed: { sign: "~", tone: "calm" },
  absent: { sign: "–", tone: "calm" },
  Open: { sign: "●", tone: "good" },
  Closed: { sign: "✕", tone: "bad" },
  Ready: { sign: "●", tone: "good" },
  NotReady: { sign: "✕", tone: "bad" },
  SchedulingDisabled: { sign: "‖", tone: "warn" },
  warning: { sign: "!", tone: "warn" },
  error: { sign: "✕", tone: "bad" },
};

/** A state as a sign, a word and a colour. */
export function Tag(props: { state: string; text?: string }) {
  const { sign, tone } = STATES[props.state] ?? { sign: "·", tone: "calm" };
  return (
    <span class={`tag ${tone}`}>
      <span aria-hidden="true">{sign}</span> {props.text ?? props.state}
    </span>
  );
}

export function Facts(props: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {props.facts.map(([name, value]) => (
        <FactPair key={name} name={name} value={value} />
      ))}
    </dl>
  );
}

function FactPair(props: { name: string; value: ComponentChildren }) {
  return (
    <>
      <dt>{props.name}</dt>
      <dd>{props.value}</dd>
    </>
  );
}

export function Tiles(props: { tiles: readonly (readonly [string, ComponentChildren, ComponentChildren?])[] }) {
  return (
    <dl class="tiles">
      {props.tiles.map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value} {note ? <small>{note}</small> : null}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Buttons, one of which is selected. */
export function Choice<T extends string>(props: {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** Text in which names are not broken at hyphens, unless they are longer than a line. */
export function Prose(props: { text: string }) {
  return (
    <>
      {props.text.split(" ").map((word, index) => (
        <span key={index}>{index ? " " : ""}{/[-/]./.test(word) ? <span class="unbroken">{word}</span> : word}</span>
      ))}
    </>
  );
}

/** The first names of a list, and the number of others. */
export function Names(props: { names: readonly string[]; most?: number; link?: (name: string) => string }) {
  const most = props.most ?? 3;
  const rest = props.names.length - most;
  return (
    <span class="names">
      {props.names.slice(0, most).map((name, index) => (
        <span key={name}>
          {index ? ", " : ""}
          {props.link ? <a href={props.link(name)}>{name}</a> : name}
        </span>
      ))}
      {rest > 0 ? <span class="soft"> and {rest} more</span> : null}
    </span>
  );
}
