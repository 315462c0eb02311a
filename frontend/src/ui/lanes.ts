/** Overlapping spans of a row go to separate lanes, each to the lowest free one. Pure. */

export interface Timed {
  readonly start: number;
  readonly end: number | null;
}

export function lanes(spans: readonly Timed[]): { lane: number[]; count: number } {
  const order = spans.map((_, index) => index).sort((a, b) => (spans[a]?.start ?? 0) - (spans[b]?.start ?? 0) || a - b);
  const until: number[] = [];
  const lane = new Array<number>(spans.length).fill(0);
  for (const index of order) {
    const span = spans[index];
    if (!span) continue;
    let free = until.findIndex((end) => end <= span.start);
    if (free < 0) free = until.push(0) - 1;
    until[free] = span.end ?? Number.POSITIVE_INFINITY;
    lane[index] = free;
  }
  return { lane, count: Math.max(1, until.length) };
}
