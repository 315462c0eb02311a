import { describe, expect, it } from "vitest";
import { amount, bytes, byRank, count, percent, shown } from "../src/format/amounts";
import { clock, dateTime, dayMonth, duration, readable, timeStep } from "../src/format/time";

describe("amounts", () => {
  it.each([
    ["500m", 0.5], ["64Gi", 64 * 2 ** 30], ["12", 12], ["1.5k", 1500], ["1e3", 1000], ["2E", 2e18],
    ["", 0], [undefined, 0], ["many", 0], [3, 3],
  ])("reads %s", (text, value) => expect(amount(text)).toBe(value));

  it.each([
    [12, "12"], [1204, "1 204"], [1234567, "1 234 567"], [0.5, "0.5"], [12.34, "12.3"], [123.4, "123"], [-3, "-3"],
    [Number.NaN, "–"],
  ])("shows %d", (value, text) => expect(count(value)).toBe(text));

  it("shows bytes with their unit", () => {
    expect(bytes(1.5 * 2 ** 40)).toBe("1.5 TiB");
    expect(shown("memory", "64Gi")).toBe("64 GiB");
    expect(shown("cpu", "1500m")).toBe("1.5");
  });

  it("does not round a small part to nothing", () => {
    expect(percent(0)).toBe("0%");
    expect(percent(0.001)).toBe("<1%");
    expect(percent(0.376)).toBe("38%");
  });

  it("puts scarce resources first", () => {
    expect(["memory", "cpu", "nvidia.com/gpu", "ephemeral-storage"].sort(byRank)).toEqual([
      "nvidia.com/gpu", "cpu", "memory", "ephemeral-storage",
    ]);
  });
});

describe("durations", () => {
  it.each([
    [0, "0s"], [0.25, "250ms"], [8, "8s"], [188, "3m 8s"], [1020, "17m"], [7500, "2h 5m"], [7200, "2h"], [273600, "3d 4h"],
    [-90, "−1m 30s"], [undefined, "–"],
  ])("shows %d", (value, text) => expect(duration(value)).toBe(text));

  it("takes round steps", () => {
    expect(timeStep(3600, 6)).toBe(600);
    expect(timeStep(86400 * 40, 8)).toBe(86400 * 5);
  });
});

describe("times", () => {
  it.each([
    ["2026-01-01T00:39:36.500000Z", "2026-01-01 00:39:37"], ["2026-12-31T23:59:59.9Z", "2027-01-01 00:00:00"],
    ["2026-01-01T00:39:36Z", "2026-01-01 00:39:36"], ["soon", "soon"], [null, "–"],
  ])("shows %s to the nearest second", (text, shownText) => expect(dateTime(text)).toBe(shownText));

  it("says the same in a sentence, on a clock and on an axis", () => {
    const text = "2026-03-04T05:06:07.6Z";
    expect(clock(text)).toBe("05:06:08");
    expect(readable(`it starts at ${text}.`)).toBe("it starts at 2026-03-04 05:06:08.");
    expect(dayMonth(text)).toBe("4 Mar");
  });
});
