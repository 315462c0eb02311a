/** The JSON API, typed by its OpenAPI document. Addresses are relative: the page may be served under any path. */

import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

type Json<Operation> = Operation extends { responses: { 200: { content: { "application/json": infer Answer } } } }
  ? Answer
  : never;
type Query<Operation> = Operation extends { parameters: { query?: infer Asked } } ? Asked : never;
type Body<Operation> = Operation extends { requestBody: { content: { "application/json": infer Sent } } } ? Sent : never;

export type GetPath = { [P in keyof paths]: paths[P] extends { get: object } ? P : never }[keyof paths];
export type PostPath = { [P in keyof paths]: paths[P] extends { post: object } ? P : never }[keyof paths];
export type Answer<P extends GetPath> = paths[P] extends { get: infer Operation } ? Json<Operation> : never;
export type GetQuery<P extends GetPath> = paths[P] extends { get: infer Operation } ? Query<Operation> : never;
type PostAnswer<P extends PostPath> = paths[P] extends { post: infer Operation } ? Json<Operation> : never;
type PostBody<P extends PostPath> = paths[P] extends { post: infer Operation } ? Body<Operation> : never;

export type QueryValue = string | number | boolean | readonly string[] | null | undefined;

export interface Asked {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly signal?: AbortSignal;
}

/** An error answer with the server's message; status 0 if there was no answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export function get<P extends GetPath>(path: P, asked: Asked = {}): Promise<Answer<P>> {
  return answer(address(path, asked), { signal: asked.signal ?? null });
}

export function post<P extends PostPath>(path: P, body: PostBody<P>, asked: Asked = {}): Promise<PostAnswer<P>> {
  return send(address(path, asked), body);
}

/** Exchanges a token for a cookie that scripts cannot read. Not part of the contract: only browsers need it. */
export async function signIn(token: string): Promise<void> {
  await send(address("/api/v1/login"), { token });
}

function send<T>(url: string, body: unknown): Promise<T> {
  return answer(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

export function address(path: string, asked: Asked = {}): string {
  const part = (name: string): string => (asked.path?.[name] ?? "").split("/").map(encodeURIComponent).join("/");
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => part(name));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked.query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  return `.${filled}${text ? `?${text}` : ""}`;
}

async function answer<T>(url: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, { ...init, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not respond.");
  }
  if (!response.ok) throw new ApiError(response.status, await problem(response));
  return (await response.json()) as T;
}

async function problem(response: Response): Promise<string> {
  try {
    const said = (await response.json()) as { error?: unknown };
    if (typeof said.error === "string") return said.error;
  } catch {
    // Not JSON, for example an error page of a proxy: the status is all there is.
  }
  return `The server answered ${response.status} ${response.statusText}`.trim();
}
