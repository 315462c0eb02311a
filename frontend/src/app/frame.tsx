/** The frame around every view, of the served page and of a report: head, navigation, content. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { href } from "./route";

export interface FrameEntry {
  readonly name: string;
  readonly title: string;
}

export function Frame(props: {
  readonly entries: readonly FrameEntry[];
  readonly current: string;
  /** Path of the address: a change scrolls the navigation to the current view. */
  readonly place: string;
  readonly head: ComponentChildren;
  readonly tally?: (name: string) => ComponentChildren;
  readonly children: ComponentChildren;
}) {
  const content = useRef<HTMLElement>(null);
  useEffect(() => {
    document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [props.place]);
  const skip = (event: Event): void => {
    event.preventDefault();
    content.current?.focus();
  };
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <header class="top">
        <a class="brand" href={href([props.entries[0]?.name ?? ""])}>
          <img src={iconAddress()} alt="" /> Fairway
        </a>
        {props.head}
      </header>
      <nav class="side" aria-label="Views">
        <ul>
          {props.entries.map((entry) => (
            <li key={entry.name}>
              <a href={href([entry.name])} aria-current={entry.name === props.current ? "page" : undefined}>
                {entry.title}
                {props.tally?.(entry.name)}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="main" class="content" tabIndex={-1} ref={content}>{props.children}</main>
    </div>
  );
}

/** The icon of the document: a file beside the served page, and data inside a report. */
function iconAddress(): string {
  return document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href ?? "";
}
