/** The served page: the frame with the state of the connection, and the view that the address names. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useGet, useLink, usePage } from "../api/use";
import { count } from "../format/amounts";
import { clock, dateTime } from "../format/time";
import { Frame } from "./frame";
import { linkText } from "./link_state";
import { Pace } from "./pace";
import { useRoute } from "./route";
import { VIEWS, viewOf } from "./views";

export function Shell() {
  const route = useRoute();
  const { session } = usePage();
  const view = viewOf(route.path);
  const place = route.path.join("/");
  useEffect(() => {
    document.title = `${[...route.path].reverse().join(" · ") || "Jobs"} – Fairway`;
  }, [place]);
  return (
    <Frame
      entries={VIEWS.filter((entry) => entry.shown(session.capabilities))}
      current={view.name}
      place={place}
      head={<Head />}
      tally={(name) => <Tally name={name} />}
    >
      <LostBanner />
      <view.view route={route} />
    </Frame>
  );
}

function Head() {
  const { session } = usePage();
  const link = useLink();
  useSummary();
  return (
    <>
      <span class="source">
        {session.title}
        {typeof session.cycle === "number" ? <span class="more"> · cycle {count(session.cycle)}</span> : null}
      </span>
      {session.capabilities.pace ? <Pace /> : null}
      <span class="spring" />
      <time dateTime={link.now} title="Time of what is shown, UTC"><span class="more">{link.now.slice(0, 10)} </span>{clock(link.now)}</time>
      <LinkState />
    </>
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

/** Each delta carries the figures of the head; they are requested once, and again after missed deltas. */
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
          <strong>This browser is signed out.</strong> Open the address that the terminal printed, or reload the page and enter a token. Last update: {dateTime(link.now)}.
        </span>
      </div>
    );
  }
  if (link.state !== "lost") return null;
  return (
    <div class="banner" role="alert">
      <span>
        <strong>The server does not respond.</strong> Last update: {dateTime(link.now)}. The page reconnects automatically.
      </span>
      <button type="button" onClick={() => link.retryNow()}>Reconnect now</button>
    </div>
  );
}
