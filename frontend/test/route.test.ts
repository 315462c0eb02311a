import { describe, expect, it } from "vitest";
import { href, parseRoute, patched } from "../src/app/route";

describe("addresses", () => {
  it("come back as they were written", () => {
    const address = href(["jobs", "team a", "x/y"], { queue: "q&1", state: ["waiting", "running"], empty: "" });
    const route = parseRoute(address);
    expect(route.path).toEqual(["jobs", "team a", "x/y"]);
    expect(route.query.get("queue")).toBe("q&1");
    expect(route.query.getAll("state")).toEqual(["waiting", "running"]);
    expect(route.query.has("empty")).toBe(false);
  });

  it("that are broken do no harm", () => {
    expect(parseRoute("#/%E0%A4%A/x?%").path).toEqual(["%E0%A4%A", "x"]);
    expect(parseRoute("").path).toEqual([]);
  });

  it("change only in what is given", () => {
    const query = patched(new URLSearchParams("a=1&b=2"), { b: null, c: "3" });
    expect(query.toString()).toBe("a=1&c=3");
  });
});
