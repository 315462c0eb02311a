/** The event stream: one connection for the whole page. Views subscribe to changes of what they show. */

import type { Schemas } from "./client";

export type Summary = Schemas["ClusterSummary"];
export type JobRow = Schemas["JobSummary"];
export type Delta = Schemas["DeltaEvent"];
export type ViewName = Delta["changed"][number];
/** `refused`: the server answers, but this browser has no session any more. */
export type LinkState = "connecting" | "live" | "lost" | "refused" | "recorded";

type Listener = (changed: ReadonlySet<ViewName> | "all", delta: Delta | null) => void;

const FIRST_RETRY = 500;
const LONGEST_RETRY = 10_000;

export class LiveLink {
  state: LinkState = "connecting";
  now = "";
  revision = 0;
  summary: Summary | null = null;
  /** How far the page is behind, in words; null if it keeps up. */
  behind: string | null = null;
  /** Number of notifications; components compare it to redraw. */
  turns = 0;

  private source: EventSource | null = null;
  private timer = 0;
  private wait = FIRST_RETRY;
  private readonly views = new Set<Listener>();
  private readonly watchers = new Set<() => void>();

  private lastId = "";

  constructor(
    private readonly address: string,
    private readonly probe: () => Promise<number>,
  ) {}

  /** Calls views with what changed. */
  onChange(listener: Listener): () => void {
    this.views.add(listener);
    return () => this.views.delete(listener);
  }

  /** Calls the head of the page for every event and every change of the connection. */
  watch(watcher: () => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  begin(now: string, revision: number, live: boolean): void {
    this.now = now;
    this.revision = revision;
    if (live) this.connect();
    else this.become("recorded");
  }

  end(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  setSummary(summary: Summary): void {
    this.summary = summary;
    this.now = summary.now;
    this.tell();
  }

  retryNow(): void {
    this.wait = FIRST_RETRY;
    this.connect();
  }

  private connect(): void {
    this.end();
    const source = new EventSource(this.lastId ? `${this.address}?lastEventId=${encodeURIComponent(this.lastId)}` : this.address);
    this.source = source;
    source.addEventListener("hello", (event) => this.greeted(this.read(event)));
    source.addEventListener("delta", (event) => this.changed(this.read(event)));
    source.addEventListener("reset", (event) => this.moved(this.read(event)));
    source.addEventListener("behind", (event) => this.late(this.read(event)));
    source.addEventListener("goodbye", () => this.lost());
    source.onerror = () => this.lost();
  }

  private greeted(hello: Schemas["HelloEvent"]): void {
    const missed = hello.revision !== this.revision && !hello.resumed;
    this.wait = FIRST_RETRY;
    this.now = hello.now;
    this.behind = null; // an event follows if it is
    const wasLost = this.state === "lost" || this.state === "refused";
    this.become("live");
    if (missed || wasLost) this.spread("all", null);
    if (!hello.resumed) this.revision = hello.revision;
  }

  private changed(delta: Delta): void {
    this.revision = delta.revision;
    this.now = delta.now;
    this.summary = delta.summary;
    this.become("live");
    this.spread(new Set(delta.changed), delta);
  }

  private moved(reset: { revision: number; now: string }): void {
    this.revision = reset.revision;
    this.now = reset.now;
    this.behind = null;
    this.become("live");
    this.spread("all", null);
  }

  private late(event: Schemas["BehindEvent"]): void {
    this.behind = event.text;
    this.tell();
  }

  /** Reconnects with growing pauses: the browser itself gives up on some errors. */
  private lost(): void {
    this.end();
    if (this.state !== "refused") this.become("lost");
    this.timer = window.setTimeout(() => void this.again(), this.wait);
    this.wait = Math.min(LONGEST_RETRY, this.wait * 2);
  }

  /** A stream does not report why it fails; an ordinary request does. */
  private async again(): Promise<void> {
    const status = await this.probe();
    if (status === 200) this.connect();
    else {
      if (status === 401 || status === 403) this.become("refused");
      this.lost();
    }
  }

  private spread(changed: ReadonlySet<ViewName> | "all", delta: Delta | null): void {
    for (const view of [...this.views]) view(changed, delta);
  }

  private read<T>(event: Event): T {
    const message = event as MessageEvent<string>;
    if (message.lastEventId) this.lastId = message.lastEventId;
    return JSON.parse(message.data) as T;
  }

  private become(state: LinkState): void {
    this.state = state;
    this.tell();
  }

  private tell(): void {
    this.turns += 1;
    for (const watcher of [...this.watchers]) watcher();
  }
}
