/** The report inside the document, if there is one, and what its runs have in common. */

import type { Schemas } from "../api/client";
import type { ChartScale } from "../ui/chart";

export type Report = Schemas["ReportView"];
export type Run = Schemas["RunView"];
type Series = Schemas["TimeSeries"];

/** A small report is JSON; a large one is compressed, in base64. */
export async function embeddedReport(): Promise<Report | null> {
  const block = document.getElementById("fairway-report");
  if (!(block instanceof HTMLScriptElement)) return null;
  const text = block.textContent ?? "";
  if (block.type === "application/json") return JSON.parse(text) as Report;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Report;
}

/** One scale for the same chart of all runs: lengths side by side can be compared. */
export function commonScale(runs: readonly Run[], charts: (run: Run) => readonly Series[]): ChartScale {
  let top = 0;
  for (const run of runs) {
    for (const series of charts(run)) {
      for (const line of series.lines) for (const value of line.values) top = Math.max(top, value ?? 0);
    }
  }
  return { ...commonTime(runs), top };
}

export function commonTime(runs: readonly Run[]): { from: number; until: number } {
  const from = Math.min(...runs.map((run) => run.start));
  return { from, until: Math.max(from + 1, ...runs.map((run) => run.end)) };
}
