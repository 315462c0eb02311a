/** The rows of the table of jobs that are in sight: loaded by pages, changed by deltas, loaded again when order changes. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type QueryValue, type Schemas } from "../api/client";
import { useChanges, usePage } from "../api/use";

export type JobRow = Schemas["JobSummary"];
type JobsPage = Schemas["JobsPage"];

export const PAGE = 100;

const LOOK_AGAIN = 3000;
const MAX_LOOKS = 20;

function isUnestimated(row: JobRow): boolean {
  return row.state === "waiting" && !row.plannedStart && !row.estimatedStart && !row.startsAfter && !row.noStart;
}

export interface JobRows {
  readonly total: number | null;
  readonly rowAt: (index: number) => JobRow | undefined;
  readonly onRange: (first: number, last: number) => void;
  readonly error: ApiError | null;
  readonly reload: () => void;
  readonly groups: JobsPage["groups"] | undefined;
  readonly facets: JobsPage["facets"] | undefined;
}

export function useJobRows(query: Readonly<Record<string, QueryValue>>): JobRows {
  const { link, session } = usePage();
  const key = JSON.stringify(query);
  const pages = useRef(new Map<number, readonly JobRow[]>());
  const range = useRef<[number, number]>([0, 30]);
  const latest = useRef(key);
  const asked = useRef(new Map<number, AbortController>());
  const [head, setHead] = useState<{ key: string; page: JobsPage } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [, setTurn] = useState(0);
  const redraw = (): void => setTurn((count) => count + 1);

  const load = (number: number): void => {
    if (asked.current.has(number)) return;
    const stop = new AbortController();
    asked.current.set(number, stop);
    const first = number === 0;
    const wanted = { ...query, offset: number * PAGE, limit: PAGE, facets: first || undefined };
    get("/api/v1/jobs", { query: wanted, signal: stop.signal }).then(
      (page) => {
        if (asked.current.get(number) === stop) asked.current.delete(number);
        if (latest.current !== key) return;
        pages.current.set(number, page.rows);
        setError(null);
        if (first) setHead({ key, page });
        else redraw();
      },
      (problem: unknown) => {
        if (asked.current.get(number) === stop) asked.current.delete(number);
        const known = problem instanceof ApiError && problem.status === 0 && pages.current.size > 0;
        if (problem instanceof ApiError && latest.current === key && !known) setError(problem);
      },
    );
  };
  /** The first page holds the counts, so it is loaded with every change; pages out of sight are forgotten. */
  const refresh = (): void => {
    const [first, last] = range.current;
    const inSight = new Set([0]);
    for (let number = Math.floor(first / PAGE); number * PAGE < last; number += 1) inSight.add(number);
    for (const number of [...pages.current.keys()]) if (!inSight.has(number)) pages.current.delete(number);
    for (const number of inSight) load(number);
  };
  const onRange = (first: number, last: number): void => {
    range.current = [first, last];
    for (let number = Math.floor(first / PAGE); number * PAGE < last; number += 1) {
      if (!pages.current.has(number)) load(number);
    }
  };

  useEffect(() => {
    latest.current = key;
    for (const stop of asked.current.values()) stop.abort();
    asked.current.clear();
    pages.current.clear();
    refresh(); // the table may stand anywhere: where as many rows are left, it asks for none by itself
    return () => {
      for (const stop of asked.current.values()) stop.abort();
      asked.current.clear();
    };
  }, [key]);
  useChanges(["jobs"], refresh);
  // A recording stands still and tells of nothing, but estimated starts are worked out after it was opened.
  const awaited = !session.capabilities.live && (head?.page.rows.some(isUnestimated) ?? false);
  const looks = useRef(0);
  useEffect(() => {
    if (!awaited || looks.current >= MAX_LOOKS) return undefined;
    const timer = setTimeout(() => {
      looks.current += 1;
      refresh();
    }, LOOK_AGAIN);
    return () => clearTimeout(timer);
  }, [awaited, head]);
  useEffect(
    () =>
      link.onChange((_, delta) => {
        if (delta && replaceRows(pages.current, delta.jobs)) redraw();
      }),
    [link],
  );

  const shown = head?.page ?? null;
  return {
    total: shown ? shown.total : null,
    rowAt: (index) => (head?.key === key ? pages.current.get(Math.floor(index / PAGE))?.[index % PAGE] : undefined),
    onRange,
    error,
    reload: refresh,
    groups: head?.key === key ? shown?.groups : null,
    facets: shown?.facets,
  };
}

/** Replaces changed rows; returns whether any was present. */
export function replaceRows(pages: Map<number, readonly JobRow[]>, changed: readonly JobRow[]): boolean {
  if (changed.length === 0) return false;
  const byName = new Map(changed.map((row) => [row.job, row]));
  let found = false;
  for (const [number, rows] of pages) {
    if (!rows.some((row) => byName.has(row.job))) continue;
    pages.set(number, rows.map((row) => byName.get(row.job) ?? row));
    found = true;
  }
  return found;
}
