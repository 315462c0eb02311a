/**
 * The address that a terminal prints ends in `#token=…`. What follows the `#` is sent to no server, so the token is in no
 * log; it is taken out of the address bar, and out of the browser's history, before anything else happens. A view may follow
 * it: `#token=…#/jobs?queue=research`.
 */

const PREFIX = "#token=";

/** The view after the token, as a hash; "" if there is none. */
export function viewAfterToken(hash: string): string {
  const end = hash.indexOf("#", PREFIX.length);
  return end < 0 ? "" : hash.slice(end);
}

/** The token of an address; "" if there is none. */
export function tokenOf(hash: string): string {
  if (!hash.startsWith(PREFIX)) return "";
  const text = hash.slice(PREFIX.length, hash.length - viewAfterToken(hash).length);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Takes the token out of the page's address. */
export function takeToken(): string {
  const token = tokenOf(location.hash);
  if (location.hash.startsWith(PREFIX)) history.replaceState(null, "", location.pathname + viewAfterToken(location.hash));
  return token;
}
