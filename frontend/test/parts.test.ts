import { describe, expect, it } from "vitest";
import { address } from "../src/api/client";
import { fitting, template, visibleRange } from "../src/ui/columns";
import { cellAt, layout, moved, step, summary } from "../src/ui/heat";
import { lanes } from "../src/ui/lanes";
import { amounts, said, secondsOf, toChange } from "../src/views/supposed";

describe("columns", () => {
  const columns = [{ key: "name", width: 100, grow: 1 }, { key: "reason", width: 200, drop: 1 }, { key: "pods", width: 50, drop: 2 }];

  it("leave in order of importance", () => {
    expect(fitting(columns, 400).map((one) => one.key)).toEqual(["name", "reason", "pods"]);
    expect(fitting(columns, 320).map((one) => one.key)).toEqual(["name", "reason"]);
    expect(fitting(columns, 10).map((one) => one.key)).toEqual(["name"]);
  });

  it("grow only where they may", () => expect(template(columns)).toBe("minmax(100px, 1fr) 200px 50px"));

  it("have as many rows as are in sight, and some more", () => {
    expect(visibleRange(0, 300, 30, 50_000, 2)).toEqual([0, 12]);
    expect(visibleRange(1_499_700, 300, 30, 50_000, 2)).toEqual([49_988, 50_000]);
    expect(visibleRange(900, 300, 30, 5, 2)).toEqual([5, 5]);
  });
});

describe("heat map", () => {
  it("gives each node one cell, whatever the width", () => {
    for (const count of [1, 7, 600, 10_000]) {
      for (const width of [1, 360, 1100]) {
        const plan = layout(count, width, 420);
        const found = new Set<number>();
        for (let index = 0; index < count; index += 1) {
          const x = (index % plan.columns) * plan.step + 1;
          const y = Math.floor(index / plan.columns) * plan.step + 1;
          found.add(cellAt(x, y, plan, count) ?? -1);
        }
        expect(found.size).toBe(count);
        expect(found.has(-1)).toBe(false);
      }
    }
  });

  it("keeps the focus inside", () => {
    const plan = layout(10, 60, 420);
    expect(moved("ArrowUp", 0, plan, 10)).toBe(0);
    expect(moved("End", 3, plan, 10)).toBe(9);
    expect(moved("x", 3, plan, 10)).toBeUndefined();
  });

  it("is said in a sentence", () => {
    expect([0, 0.01, 0.2, 0.21, 1, 1.2].map(step)).toEqual([0, 1, 1, 2, 5, 5]);
    expect(summary([0, 0.5, 1], "gpu")).toBe("3 nodes by gpu in use: 1 idle, 1 partly used, 1 full; 50% on average");
  });
});

describe("lanes", () => {
  it("never put two spans at one time into one lane", () => {
    const spans = Array.from({ length: 60 }, (_, index) => ({ start: (index * 37) % 50, end: index % 7 ? ((index * 37) % 50) + 1 + (index % 11) : null }));
    const { lane, count } = lanes(spans);
    spans.forEach((one, a) =>
      spans.forEach((other, b) => {
        if (a >= b || lane[a] !== lane[b]) return;
        const apart = (one.end ?? Infinity) <= other.start || (other.end ?? Infinity) <= one.start;
        expect(apart).toBe(true);
      }),
    );
    expect(Math.max(...lane) + 1).toBe(count);
  });
});

describe("supposed changes", () => {
  it("come from filled fields", () => {
    expect(toChange("queueWeight", { queue: "research", weight: "3" })).toEqual({ kind: "queueWeight", queue: "research", weight: 3 });
    expect(toChange("queueCapability", { queue: "q", capability: "" })).toEqual({ kind: "queueCapability", queue: "q", capability: {} });
    expect(toChange("removeNodes", { nodes: "a, b" })).toEqual({ kind: "removeNodes", nodes: ["a", "b"] });
    const job = toChange("submitForm", { name: "x", namespace: "n", queue: "q", pods: "2", requests: "cpu=4 memory=8Gi", runtimeSeconds: "30m" });
    expect(job).toEqual({ kind: "submitForm", name: "x", namespace: "n", queue: "q", pods: 2, requests: { cpu: "4", memory: "8Gi" }, runtimeSeconds: 1800 });
    expect(typeof job === "string" ? job : said(job)).toBe("Submit n/x: 2 × 4 cpu, 8Gi memory");
  });

  it("say which field is wrong", () => {
    expect(toChange("queueWeight", { queue: "research", weight: "0" })).toBe("Weight: 0 is not a whole number above 0");
    expect(toChange("queueWeight", { weight: "1" })).toBe("Queue: required");
    expect(toChange("addNodes", { count: "2", allocatable: "cpu" })).toBe("or each with: cpu is not resource=amount, such as cpu=4");
  });

  it("read amounts and durations", () => {
    expect(amounts("nvidia.com/gpu=8")).toEqual({ "nvidia.com/gpu": "8" });
    expect([secondsOf("90"), secondsOf("1.5h"), secondsOf("0"), secondsOf("soon")]).toEqual([90, 5400, undefined, undefined]);
  });
});

describe("requests", () => {
  it("keep the slash of a job, and escape all else", () => {
    expect(address("/api/v1/jobs/{job}", { path: { job: "team a/x?y" } })).toBe("./api/v1/jobs/team%20a/x%3Fy");
    expect(address("/api/v1/jobs", { query: { state: ["waiting", "running"], search: "", group: null, limit: 10 } })).toBe(
      "./api/v1/jobs?state=waiting&state=running&limit=10",
    );
  });
});
