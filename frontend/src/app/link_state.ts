/** The state of the connection in words: live, behind, or why it is down. */

import type { LinkState } from "../api/live";

const WORDS: Readonly<Record<LinkState, string>> = { connecting: "Connecting", live: "Live", lost: "Reconnecting", refused: "Signed out", recorded: "Recorded" };

export interface LinkText {
  readonly state: LinkState | "behind";
  readonly word: string;
  readonly detail: string;
}

/** A connection that is not live shows that first: older news is out of date. */
export function linkText(state: LinkState, behind: string | null): LinkText {
  if (state === "live" && behind !== null) return { state: "behind", word: "Behind:", detail: behind };
  return { state, word: WORDS[state], detail: "" };
}
