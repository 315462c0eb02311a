/**
 * The address is the state of a view: `#/jobs?queue=research&sort=-waiting`.
 *
 * It follows the `#`, so that the page works under any path of a proxy and no server logs what is viewed.
 */

import { useEffect, useMemo, useState } from "preact/hooks";

export interface Route {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export type Patch = Readonly<Record<string, string | readonly string[] | null>>;

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  return { path: parts.map(decode), query: new URLSearchParams(query) };
}

export function href(path: readonly string[], query?: Patch | URLSearchParams): string {
  const asked = query instanceof URLSearchParams ? query : patched(new URLSearchParams(), query ?? {});
  const text = asked.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** A copy with these keys set, or removed if the value is null or empty. */
export function patched(query: URLSearchParams, patch: Patch): URLSearchParams {
  const copy = new URLSearchParams(query);
  for (const [key, value] of Object.entries(patch)) {
    copy.delete(key);
    for (const one of value === null ? [] : typeof value === "string" ? [value] : value) {
      if (one !== "") copy.append(key, one);
    }
  }
  return copy;
}

export function go(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener("hashchange", changed);
    changed(); // the address may have changed between the drawing and now
    return () => removeEventListener("hashchange", changed);
  }, []);
  return useMemo(() => parseRoute(hash), [hash]);
}

/** The query of the address, and a way to change parts of it in place. */
export function useQuery(): [URLSearchParams, (patch: Patch) => void] {
  const route = useRoute();
  const change = (patch: Patch): void => {
    const now = parseRoute(location.hash);
    go(href(now.path, patched(now.query, patch)), { replace: true });
  };
  return [route.query, change];
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
