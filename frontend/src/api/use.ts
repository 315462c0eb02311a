/** Hooks that load answers and keep them fresh. */

import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type Answer, type Asked, type GetPath, type Schemas } from "./client";
import type { LiveLink, ViewName } from "./live";

export interface PageContext {
  readonly session: Schemas["SessionInfo"];
  readonly link: LiveLink;
}

export const Page = createContext<PageContext | null>(null);

export function usePage(): PageContext {
  const page = useContext(Page);
  if (!page) throw new Error("usePage outside of a page");
  return page;
}

/** The connection; redraws the component with each of its events. */
export function useLink(): LiveLink {
  const { link } = usePage();
  const [, setTurn] = useState(link.turns);
  useEffect(() => {
    const told = (): void => setTurn(link.turns);
    told(); // of what came between the drawing and now
    return link.watch(told);
  }, [link]);
  return link;
}

export interface Loaded<T> {
  readonly data: T | null;
  readonly error: ApiError | null;
  readonly loading: boolean;
  readonly reload: () => void;
}

const PAUSE = 1000;

/** Calls `again` when one of the views changes, at most once a second and only while the page is visible. */
export function useChanges(views: readonly ViewName[], again: () => void): void {
  const { link } = usePage();
  const call = useRef(again);
  call.current = again;
  const key = views.join();
  useEffect(() => {
    const wanted = key.split(",") as ViewName[];
    let timer = 0;
    let last = 0;
    let due = false;
    const run = (): void => {
      timer = 0;
      if (document.hidden) {
        due = true;
        return;
      }
      last = performance.now();
      due = false;
      call.current();
    };
    const later = (): void => {
      if (!timer) timer = window.setTimeout(run, Math.max(0, last + PAUSE - performance.now()));
    };
    const seen = (): void => {
      if (due) later();
    };
    const stop = link.onChange((changed) => {
      if (changed === "all" || wanted.some((view) => changed.has(view))) later();
    });
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [link, key]);
}

/** The answer of a GET. The last answer stays until the next arrives; a `null` path loads nothing. */
export function useGet<P extends GetPath>(
  path: P | null,
  asked: Omit<Asked, "signal"> = {},
  views: readonly ViewName[] = [],
): Loaded<Answer<P>> {
  const key = path === null ? null : JSON.stringify([path, asked]);
  const [state, setState] = useState<State<Answer<P>>>({ key: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  const reload = (): void => setTurn((count) => count + 1);
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    get(path, { ...asked, signal: stop.signal }).then(
      (data) => setState({ key, data, error: null }),
      (error: unknown) => {
        if (error instanceof ApiError) setState((old) => failed(old, key, error));
      },
    );
    return () => stop.abort();
  }, [key, turn]);
  useChanges(views, reload);
  const sameSubject = state.key === key || samePath(state.key, key);
  return {
    data: sameSubject ? state.data : null,
    error: state.key === key ? state.error : null,
    loading: path !== null && state.key !== key,
    reload,
  };
}

interface State<T> {
  readonly key: string | null;
  readonly data: T | null;
  readonly error: ApiError | null;
}

/** A lost server is reported once, by the head of the page; loaded data stays. */
function failed<T>(old: State<T>, key: string | null, error: ApiError): State<T> {
  const data = old.key === key ? old.data : null;
  return data !== null && error.status === 0 ? old : { key, data, error };
}

/** Whether two requests differ in their query only: then the old answer stays until the new one arrives. */
function samePath(one: string | null, other: string | null): boolean {
  if (one === null || other === null) return false;
  const [path, asked] = JSON.parse(one) as [string, Asked];
  const [otherPath, otherAsked] = JSON.parse(other) as [string, Asked];
  return path === otherPath && JSON.stringify(asked.path) === JSON.stringify(otherAsked.path);
}
