import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LiveLink } from "../src/api/live";
import { linkText } from "../src/app/link_state";

describe("the state of the connection", () => {
  it("is live where nothing is behind", () => {
    expect(linkText("live", null)).toEqual({ state: "live", word: "Live", detail: "" });
  });

  it("says by how much what is shown is behind", () => {
    const late = "x12 of x60, the last cycle took 5.2 s";
    expect(linkText("live", late)).toEqual({ state: "behind", word: "Behind:", detail: late });
  });

  it("says first that there is no connection", () => {
    for (const state of ["connecting", "lost", "refused", "recorded"] as const) expect(linkText(state, "x1 of x60").state).toBe(state);
  });
});

/** As a browser's, with events that the test sends. */
class Stream extends EventTarget {
  static last: Stream;
  onerror: (() => void) | null = null;
  constructor(readonly url: string) {
    super();
    Stream.last = this;
  }
  close(): void {}
  send(type: string, data: unknown): void {
    this.dispatchEvent(new MessageEvent(type, { data: JSON.stringify(data), lastEventId: "a-1" }));
  }
}

describe("a link", () => {
  beforeEach(() => void vi.stubGlobal("EventSource", Stream));
  afterEach(() => void vi.unstubAllGlobals());

  it("tells those who draw what the server says of being behind, and when that is over", () => {
    const link = new LiveLink("/events", async () => 200);
    const seen: (string | null)[] = [];
    link.watch(() => seen.push(link.behind));
    link.begin("2026-01-01T00:00:00Z", 1, true);
    Stream.last.send("hello", { revision: 1, now: "2026-01-01T00:00:00Z", resumed: false });
    Stream.last.send("behind", { text: "no cycle finished for 40 s" });
    Stream.last.send("behind", { text: null });
    expect(seen).toEqual([null, "no cycle finished for 40 s", null]);
    expect(link.revision).toBe(1);
    Stream.last.send("behind", { text: "x1 of x60" });
    Stream.last.send("hello", { revision: 1, now: "2026-01-01T00:00:00Z", resumed: true });
    expect(link.behind).toBeNull();
  });
});
