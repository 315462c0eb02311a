/** Filters: a text, and menus of values with their counts. Selected values are shown as chips that remove them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../format/amounts";

export interface FacetOption {
  readonly value: string;
  readonly count: number;
  readonly text?: string;
}

export function SearchBox(props: { label: string; value: string; onChange: (value: string) => void; placeholder?: string }) {
  const [text, setText] = useState(props.value);
  const timer = useRef(0);
  useEffect(() => setText(props.value), [props.value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (value: string): void => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => props.onChange(value.trim()), 200);
  };
  return (
    <input
      type="search"
      class="search"
      aria-label={props.label}
      placeholder={props.placeholder ?? props.label}
      value={text}
      onInput={(event) => typed(event.currentTarget.value)}
    />
  );
}

/** A menu of values with multiple selection. */
export function Facet(props: {
  title: string;
  options: readonly FacetOption[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
}) {
  const root = useRef<HTMLDetailsElement>(null);
  const [word, setWord] = useState("");
  useEffect(() => {
    const outside = (event: Event): void => {
      if (root.current?.open && !root.current.contains(event.target as globalThis.Node)) root.current.open = false;
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  const missing = props.chosen.filter((value) => !props.options.some((option) => option.value === value));
  const options = [...props.options, ...missing.map((value) => ({ value, count: 0 }))];
  const found = options.filter((option) => option.value.toLowerCase().includes(word.toLowerCase()));
  const toggle = (value: string): void =>
    props.onChange(props.chosen.includes(value) ? props.chosen.filter((one) => one !== value) : [...props.chosen, value]);
  const close = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !root.current) return;
    root.current.open = false;
    root.current.querySelector("summary")?.focus();
  };
  return (
    <details class="facet" ref={root} onKeyDown={close}>
      <summary class={props.chosen.length ? "chosen" : undefined}>
        {props.title}
        {props.chosen.length ? <span class="tally">{props.chosen.length}</span> : null}
      </summary>
      <div class="facet-menu" role="group" aria-label={props.title}>
        {options.length > 10 ? (
          <input type="search" aria-label={`Find a ${props.title.toLowerCase()}`} value={word} onInput={(event) => setWord(event.currentTarget.value)} />
        ) : null}
        <ul>
          {found.slice(0, 200).map((option) => (
            <li key={option.value}>
              <label>
                <input type="checkbox" checked={props.chosen.includes(option.value)} onChange={() => toggle(option.value)} />
                <span class="facet-value">{option.value || "(none)"}</span>
                <span class="number soft">{count(option.count)}</span>
              </label>
            </li>
          ))}
          {found.length === 0 ? <li class="soft">No values.</li> : null}
        </ul>
      </div>
    </details>
  );
}

export function Chips(props: { chips: readonly { key: string; text: string; remove: () => void }[]; clear: () => void }) {
  if (props.chips.length === 0) return null;
  return (
    <ul class="chips" aria-label="Filters in force">
      {props.chips.map((chip) => (
        <li key={chip.key}>
          <button type="button" class="chip" onClick={chip.remove} aria-label={`Remove filter ${chip.text}`}>
            {chip.text} <span aria-hidden="true">×</span>
          </button>
        </li>
      ))}
      <li>
        <button type="button" class="plain" onClick={props.clear}>Clear all</button>
      </li>
    </ul>
  );
}
