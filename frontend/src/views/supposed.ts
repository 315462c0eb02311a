/** The changes of a what-if question: form fields, request, and description. Pure. */

import type { Schemas } from "../api/client";

export type Change = Schemas["WhatIfRequest"]["changes"][number];
export type Kind = Change["kind"];

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly list?: "queues" | "namespaces" | "nodes" | "jobs";
  readonly kind?: "number" | "text" | "amounts" | "area" | "names" | "seconds";
  readonly optional?: boolean;
}

export interface Form {
  readonly title: string;
  readonly fields: readonly Field[];
}

const QUEUE: Field = { name: "queue", label: "Queue", list: "queues" };
const AMOUNTS = "cpu=16, memory=64Gi, nvidia.com/gpu=8";

export const FORMS: Readonly<Record<Kind, Form>> = {
  submitForm: {
    title: "Submit a job",
    fields: [
      { name: "name", label: "Name" },
      { name: "namespace", label: "Namespace", list: "namespaces" },
      QUEUE,
      { name: "pods", label: "Pods", kind: "number" },
      { name: "minimum", label: "At once", kind: "number", hint: "all", optional: true },
      { name: "requests", label: "Each requests", kind: "amounts", hint: AMOUNTS },
      { name: "priorityClass", label: "PriorityClass", hint: "none", optional: true },
      { name: "runtimeSeconds", label: "Runs for", kind: "seconds", hint: "30m", optional: true },
    ],
  },
  submitManifest: { title: "Submit YAML", fields: [{ name: "yaml", label: "Objects", kind: "area" }] },
  queueWeight: { title: "Change a queue's weight", fields: [QUEUE, { name: "weight", label: "Weight", kind: "number" }] },
  queueCapability: { title: "Change a queue's capability", fields: [QUEUE, { name: "capability", label: "Capability", kind: "amounts", hint: AMOUNTS, optional: true }] },
  queueDeserved: { title: "Change a queue's deserved amounts", fields: [QUEUE, { name: "deserved", label: "Deserved", kind: "amounts", hint: AMOUNTS }] },
  namespaceWeight: {
    title: "Change a namespace's weight",
    fields: [{ name: "namespace", label: "Namespace", list: "namespaces" }, { name: "weight", label: "Weight", kind: "number" }],
  },
  addNodes: {
    title: "Add nodes",
    fields: [
      { name: "count", label: "How many", kind: "number" },
      { name: "like", label: "Like node", list: "nodes", optional: true },
      { name: "allocatable", label: "or each with", kind: "amounts", hint: AMOUNTS, optional: true },
    ],
  },
  removeNodes: { title: "Remove nodes", fields: [{ name: "nodes", label: "Nodes", kind: "names", list: "nodes", hint: "gpu-0, gpu-1" }] },
  cancelJob: { title: "Cancel a job", fields: [{ name: "job", label: "Job", list: "jobs", hint: "namespace/name" }] },
  policy: { title: "Use another policy", fields: [{ name: "text", label: "Policy", kind: "area" }] },
};

export const STARTING: Readonly<Partial<Record<Kind, Readonly<Record<string, string>>>>> = {
  submitForm: { name: "what-if", namespace: "default", queue: "default", pods: "1" },
  addNodes: { count: "1" },
};

/** The change described by the fields, or what is wrong with them. */
export function toChange(kind: Kind, values: Readonly<Record<string, string>>): Change | string {
  const change: Record<string, unknown> = { kind };
  for (const field of FORMS[kind].fields) {
    const text = (values[field.name] ?? "").trim();
    if (text === "") {
      if (!field.optional) return `${field.label}: required`;
      if (kind === "queueCapability" && field.name === "capability") change[field.name] = {};
      continue;
    }
    const value = read(field, text);
    if (value instanceof Error) return `${field.label}: ${value.message}`;
    change[field.name] = value;
  }
  return change as unknown as Change;
}

function read(field: Field, text: string): unknown {
  if (field.kind === "number") {
    return /^\d+$/.test(text) && Number(text) > 0 ? Number(text) : new Error(`${text} is not a whole number above 0`);
  }
  if (field.kind === "names") return text.split(/[\s,]+/).filter(Boolean);
  if (field.kind === "amounts") return amounts(text);
  if (field.kind === "seconds") return secondsOf(text) ?? new Error(`${text} is not a duration such as 90s, 30m or 2h`);
  return text;
}

/** "cpu=4, memory=8Gi" as an object. */
export function amounts(text: string): Record<string, string> | Error {
  const found: Record<string, string> = {};
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const [name, value, rest] = part.split("=");
    if (!name || !value || rest !== undefined) return new Error(`${part} is not resource=amount, such as cpu=4`);
    found[name] = value;
  }
  return found;
}

export function secondsOf(text: string): number | undefined {
  const units: Readonly<Record<string, number>> = { "": 1, s: 1, m: 60, h: 3600, d: 86_400 };
  const found = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(text);
  const value = found ? Number(found[1]) * (units[found[2] ?? ""] ?? 0) : 0;
  return value > 0 ? value : undefined;
}

/** A change in a few words, for the list of changes. */
export function said(change: Change): string {
  const list = (named: Readonly<Record<string, string>> | undefined): string =>
    Object.entries(named ?? {}).map(([name, value]) => `${value} ${name}`).join(", ");
  switch (change.kind) {
    case "submitForm": return `Submit ${change.namespace ?? "default"}/${change.name}: ${change.pods ?? 1} × ${list(change.requests)}`;
    case "submitManifest": return `Submit ${change.yaml.split(/^---/m).filter((one) => one.trim()).length} objects from YAML`;
    case "queueWeight": return `Queue ${change.queue}: weight ${change.weight}`;
    case "queueCapability": return `Queue ${change.queue}: ${list(change.capability) ? `capability ${list(change.capability)}` : "no capability limit"}`;
    case "queueDeserved": return `Queue ${change.queue}: deserves ${list(change.deserved)}`;
    case "namespaceWeight": return `Namespace ${change.namespace}: weight ${change.weight}`;
    case "addNodes": return `Add ${change.count} nodes ${change.like ? `like ${change.like}` : `with ${list(change.allocatable)}`}`;
    case "removeNodes": return `Remove ${change.nodes.length === 1 ? "node" : "nodes"} ${change.nodes.join(", ")}`;
    case "cancelJob": return `Cancel ${change.job}`;
    case "policy": return "Use another policy";
  }
}
