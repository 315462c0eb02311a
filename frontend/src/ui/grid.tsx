/**
 * A table of any length: only rows in sight exist. An ARIA grid with one tab stop; arrows, Page, Home and End move,
 * Enter opens. Columns that do not fit are left out, the least important first.
 */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { fitting, template, visibleRange, type Sizing } from "./columns";
import { useSize } from "./size";

export interface Column<Row> extends Sizing {
  readonly title: string;
  readonly align?: "end";
  /** Tooltip that explains a short title. */
  readonly hint?: string;
  /** Sort key; absent if the column cannot be sorted. */
  readonly sort?: string;
  readonly cell: (row: Row) => ComponentChildren;
}

export interface Props<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly count: number;
  readonly rowAt: (index: number) => Row | undefined;
  readonly keyOf: (row: Row) => string;
  readonly onRange?: (first: number, last: number) => void;
  readonly onOpen?: (row: Row) => void;
  /** "waiting" ascending, "-waiting" descending. */
  readonly sort?: string;
  readonly onSort?: (sort: string) => void;
  readonly empty: ComponentChildren;
  /** Shown below a row if the column with this key does not fit. */
  readonly below?: { readonly column: string; readonly cell: (row: Row) => ComponentChildren };
  /** Maximum number of rows shown without scrolling. */
  readonly most?: number;
  /** The initially active row, so that going back restores the position. */
  readonly start?: number;
  readonly onActive?: (index: number) => void;
}

const LINE = 30;
const BELOW = 22;
const HEAD = 30;
const PADDING = 24;

export function Grid<Row>(props: Props<Row>) {
  const { columns, count, rowAt, keyOf, onRange, onOpen } = props;
  const id = useId();
  const [frame, size] = useSize<HTMLDivElement>();
  const [scroll, setScroll] = useState(0);
  const [active, activate] = useState(props.start ?? 0);
  const pendingScroll = useRef(Boolean(props.start));
  const setActive = (index: number): void => {
    activate(index);
    props.onActive?.(index);
  };
  const shown = fitting(columns, (size.width || 1200) - PADDING);
  const below = props.below && !shown.some((column) => column.key === props.below?.column) ? props.below : null;
  const rowHeight = below ? LINE + BELOW : LINE;
  const height = Math.min(count, props.most ?? 24) * rowHeight + HEAD;
  const [first, last] = visibleRange(scroll, size.height || height, rowHeight, count);
  const at = Math.min(active, Math.max(0, count - 1));

  useEffect(() => onRange?.(first, last), [first, last, count]);
  useLayoutEffect(() => {
    if (!pendingScroll.current || !frame.current) return;
    pendingScroll.current = false;
    const top = at * rowHeight;
    const box = frame.current;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + rowHeight > box.scrollTop + box.clientHeight - HEAD) box.scrollTop = top + rowHeight + HEAD - box.clientHeight;
  });

  const move = (to: number): void => {
    pendingScroll.current = true;
    setActive(Math.max(0, Math.min(count - 1, to)));
  };
  const pageRows = Math.max(1, Math.floor((size.height - HEAD) / rowHeight) - 1);
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = target(event.key, at, pageRows, count);
    if (to !== undefined) move(to);
    else if (event.key === "Enter" && event.target === event.currentTarget) open(at);
    else return;
    event.preventDefault();
  };
  const open = (index: number): void => {
    const row = rowAt(index);
    if (row !== undefined) onOpen?.(row);
  };

  if (count === 0) return <>{props.empty}</>;
  const columnStyle = { gridTemplateColumns: template(shown) };
  return (
    <div
      ref={frame}
      class="grid"
      role="grid"
      tabIndex={0}
      aria-label={props.label}
      aria-rowcount={count + 1}
      aria-colcount={shown.length}
      aria-activedescendant={at >= first && at < last ? `${id}-${at}` : undefined}
      style={{ height: `${height + 2}px` }}
      onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <div class="grid-head" role="row" aria-rowindex={1} style={columnStyle}>
        {shown.map((column) => (
          <Head key={column.key} column={column} sort={props.sort} onSort={props.onSort} />
        ))}
      </div>
      <div class="grid-body" role="rowgroup" style={{ height: `${count * rowHeight}px` }}>
        {Array.from({ length: last - first }, (_, offset) => {
          const index = first + offset;
          const row = rowAt(index);
          return (
            <div
              key={row === undefined ? `#${index}` : keyOf(row)}
              id={`${id}-${index}`}
              class={`grid-row${index === at ? " active" : ""}${below ? " two-lines" : ""}`}
              role="row"
              aria-rowindex={index + 2}
              aria-busy={row === undefined ? true : undefined}
              style={{ ...columnStyle, transform: `translateY(${index * rowHeight}px)` }}
              onClick={(event) => {
                setActive(index);
                if (!(event.target as Element).closest("a, button")) open(index);
              }}
            >
              {shown.map((column) => (
                <div key={column.key} role="gridcell" class={column.align === "end" ? "number" : undefined}>
                  {row === undefined ? <span class="blank" /> : column.cell(row)}
                </div>
              ))}
              {below && row !== undefined ? <div role="gridcell" class="below">{below.cell(row)}</div> : null}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Head<Row>(props: { column: Column<Row>; sort?: string | undefined; onSort?: ((sort: string) => void) | undefined }) {
  const { column, sort, onSort } = props;
  const key = column.sort;
  const state = !key || !sort ? undefined : sort === key ? "ascending" : sort === `-${key}` ? "descending" : undefined;
  const next = state === "ascending" ? `-${key}` : (key ?? "");
  return (
    <div role="columnheader" aria-sort={state} class={column.align === "end" ? "number" : undefined} title={column.hint}>
      {key && onSort ? (
        <button type="button" class="plain sorter" onClick={() => onSort(next)}>
          {column.title}
          {state ? <span aria-hidden="true">{state === "ascending" ? "▲" : "▼"}</span> : null}
        </button>
      ) : (
        column.title
      )}
    </div>
  );
}

function target(key: string, at: number, page: number, count: number): number | undefined {
  const moves: Readonly<Record<string, number>> = {
    ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: count - 1,
  };
  return moves[key];
}
