/** The frame around every view: head, navigation, the state of the connection, and the view that the address names. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useGet, useLink, usePage } from "../api/use";
import { count } from "../format/amounts";
import { clock, dateTime } from "../format/time";
import { linkText } from "./link_state";
import { Pace } from "./pace";
import { href, useRoute } from "./route";
import { VIEWS, viewOf } from "./views";

export function Shell() {
  const route = useRoute();
  const content = useRef<HTMLElement>(null);
  const { session } = usePage();
  const view = viewOf(route.path);
  const place = route.path.join("/");
  useEffect(() => {
    document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    document.title = `${[...route.path].reverse().join(" · ") || "Jobs"} – Fairway`;
  }, [place]);
  const skip = (event: Event): void => {
    event.preventDefault();
    content.current?.focus();
  };
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <Top />
      <nav class="side" aria-label="Views">
        <ul>
          {VIEWS.filter((one) => one.shown(session.capabilities)).map((one) => (
            <li key={one.name}>
              <a href={href([one.name])} aria-current={one === view ? "page" : undefined}>
                {one.title}
                <Tally name={one.name} />
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="main" class="content" tabIndex={-1} ref={content}>
        <LostBanner />
        <view.view route={route} />
      </main>
    </div>
  );
}

function Top() {
  const { session } = usePage();
  const link = useLink();
  useSummary();
  return (
    <header class="top">
      <a class="brand" href={href(["jobs"])}>
        <img src="./icon.svg" alt="" /> Fairway
      </a>
      <span class="source">
        {session.title}
        {typeof session.cycle === "number" ? <span class="more"> · cycle {count(session.cycle)}</span> : null}
      </span>
      {session.capabilities.pace ? <Pace /> : null}
      <span class="spring" />
      <time dateTime={link.now} title="Time of what is shown, UTC"><span class="more">{link.now.slice(0, 10)} </span>{clock(link.now)}</time>
      <LinkState />
    </header>
  );
}

/** The word is announced when it changes; the figures behind it change every second, and are read on demand. */
function LinkState() {
  const link = useLink();
  const { state, word, detail } = linkText(link.state, link.behind);
  return (
    <span class="link-state" data-state={state} title={detail}>
      <span role="status">{word}</span>
      {detail ? <span class="detail"> {detail}</span> : null}
    </span>
  );
}

/** The head's figures come with each delta; they are asked for once, and again when deltas were missed. */
function useSummary(): void {
  const { link } = usePage();
  const loaded = useGet("/api/v1/overview", {}, ["session"]);
  useEffect(() => {
    if (loaded.data) link.setSummary(loaded.data);
  }, [loaded.data]);
}

function Tally(props: { name: string }): ComponentChildren {
  const { summary } = useLink();
  if (!summary) return null;
  const value = { jobs: summary.jobs.waiting ?? 0, nodes: summary.nodes, evictions: summary.evictions }[props.name];
  const what = { jobs: "waiting", nodes: "nodes", evictions: "evictions" }[props.name];
  return value ? <span class="tally" title={what}>{count(value)}<span class="hidden-text"> {what}</span></span> : null;
}

function LostBanner() {
  const link = useLink();
  if (link.state === "refused") {
    return (
      <div class="banner bad" role="alert">
        <span>
          <strong>This browser is signed out.</strong> Open the address that the terminal printed, or reload the page to give a token; what is shown is of {dateTime(link.now)}.
        </span>
      </div>
    );
  }
  if (link.state !== "lost") return null;
  return (
    <div class="banner" role="alert">
      <span>
        <strong>The server does not answer.</strong> What is shown is of {dateTime(link.now)}; the page connects again by itself.
      </span>
      <button type="button" onClick={() => link.retryNow()}>Try now</button>
    </div>
  );
}
