import { describe, expect, it } from "vitest";
import { createdText, passed, startedText } from "../src/views/job_times";

const NOW = "2026-01-01T01:00:00Z";

describe("times of a job", () => {
  it("are since its creation while it waits, and since its start while it runs", () => {
    expect(passed({ state: "waiting", created: "2026-01-01T00:59:00Z" }, NOW).text).toBe("1m");
    expect(passed({ state: "running", created: "2026-01-01T00:00:00Z", started: "2026-01-01T00:59:30Z" }, NOW).text).toBe("30s");
    expect(createdText({ state: "waiting", created: "2026-01-01T00:59:00Z" }, NOW)).toBe("2026-01-01 00:59:00 (1m ago)");
    expect(startedText({ state: "running", created: "2026-01-01T00:00:00Z", started: "2026-01-01T00:00:30Z" })).toBe("2026-01-01 00:00:30 (after 30s)");
  });

  it("are a dash where its creation is not known", () => {
    expect(passed({ state: "waiting", created: null }, NOW).text).toBe("–");
    expect(passed({ state: "running", created: null, started: null }, NOW).text).toBe("–");
    expect(createdText({ state: "waiting", created: null }, NOW)).toBe("–");
    expect(startedText({ state: "running", created: null, started: "2026-01-01T00:00:30Z" })).toBe("2026-01-01 00:00:30");
  });
});
