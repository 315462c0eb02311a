/** How long a job has been pending or running, and when it was created; a dash if unknown. */

import type { Schemas } from "../api/client";
import { between, dateTime, duration } from "../format/time";

type Times = Pick<Schemas["JobSummary"], "state" | "created" | "started" | "ended">;

export function passed(row: Times, now: string): { readonly text: string; readonly title: string } {
  if (row.state === "finished") return { text: duration(between(row.started, row.ended)), title: `ended ${dateTime(row.ended)}` };
  const since = row.state === "running" ? (row.started ?? row.created) : row.created;
  const time = between(since, now);
  if (time === undefined) return { text: "–", title: "when it was created is unknown" };
  return { text: duration(Math.max(0, time)), title: `since ${dateTime(since)}` };
}

export function createdText(row: Times, now: string): string {
  return row.created ? `${dateTime(row.created)} (${duration(between(row.created, now))} ago)` : "–";
}

export function startedText(row: Times): string {
  return dateTime(row.started) + (row.created ? ` (after ${duration(between(row.created, row.started))})` : "");
}
