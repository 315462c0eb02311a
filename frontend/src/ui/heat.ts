/** The layout of a heat map: size and position of cells, and a summary sentence. Pure. */

export interface Layout {
  readonly columns: number;
  readonly rows: number;
  /** Pixels from one cell to the next. */
  readonly step: number;
  readonly gap: number;
}

const LARGEST = 84;
const SMALLEST = 6;

/** Cells of at least this size show the name of the node. */
export const NAMED = 60;

/** The largest cells with which `count` nodes fit into the space, but never too small to click. */
export function layout(count: number, width: number, height: number): Layout {
  for (let step = LARGEST; step > SMALLEST; step -= step > 32 ? 4 : 1) {
    const columns = Math.max(1, Math.floor(width / step));
    const rows = Math.ceil(count / columns);
    if (rows * step <= height) return { columns, rows, step, gap: step > 40 ? 4 : step > 12 ? 2 : 1 };
  }
  const columns = Math.max(1, Math.floor(width / SMALLEST));
  return { columns, rows: Math.ceil(count / columns), step: SMALLEST, gap: 1 };
}

export function cellAt(x: number, y: number, plan: Layout, count: number): number | null {
  const column = Math.floor(x / plan.step);
  const row = Math.floor(y / plan.step);
  if (column < 0 || column >= plan.columns || row < 0) return null;
  const index = row * plan.columns + column;
  return index < count ? index : null;
}

export function moved(key: string, at: number, plan: Layout, count: number): number | undefined {
  const to = (
    { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + plan.columns, ArrowUp: at - plan.columns, Home: 0, End: count - 1 } as
    Readonly<Record<string, number>>
  )[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

/** 0: nothing in use; 1 to 5: fifths. */
export function step(part: number): number {
  return part <= 0 ? 0 : Math.min(5, Math.max(1, Math.ceil(part * 5 - 1e-9)));
}

export function summary(parts: readonly number[], what: string): string {
  const steps = [0, 0, 0, 0, 0, 0];
  for (const part of parts) steps[step(part)] = (steps[step(part)] ?? 0) + 1;
  const full = parts.filter((part) => part >= 0.999).length;
  const mean = parts.length ? parts.reduce((sum, part) => sum + part, 0) / parts.length : 0;
  return (
    `${parts.length} nodes by ${what} in use: ${steps[0]} idle, ${parts.length - (steps[0] ?? 0) - full} partly used, ` +
    `${full} full; ${Math.round(mean * 100)}% on average`
  );
}
