/** Which columns of a table fit, and how wide they are. Pure. */

export interface Sizing {
  readonly key: string;
  /** The least width in pixels. */
  readonly width: number;
  /** Part of the remaining space that it takes; 0 keeps its width. */
  readonly grow?: number;
  /** Columns with the largest number are dropped first if space is short; 0 is never dropped. */
  readonly drop?: number;
}

export function fitting<C extends Sizing>(columns: readonly C[], space: number): C[] {
  const shown = [...columns];
  let needed = shown.reduce((sum, column) => sum + column.width, 0);
  while (needed > space) {
    const last = shown.reduce<C | null>((most, one) => ((one.drop ?? 0) > (most?.drop ?? 0) ? one : most), null);
    if (!last) break;
    shown.splice(shown.indexOf(last), 1);
    needed -= last.width;
  }
  return shown;
}

export function template(columns: readonly Sizing[]): string {
  return columns.map((one) => (one.grow ? `minmax(${one.width}px, ${one.grow}fr)` : `${one.width}px`)).join(" ");
}

/** Visible rows, with some above and below. */
export function visibleRange(scroll: number, height: number, row: number, count: number, extra = 8): [number, number] {
  const first = Math.max(0, Math.min(Math.floor(scroll / row) - extra, count));
  const last = Math.min(count, Math.ceil((scroll + height) / row) + extra);
  return [first, Math.max(first, last)];
}
