/** Durations and instants, short: the same forms as the terminal's. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Two units at most: 8s, 3m 8s, 17m, 2h 5m, 3d 4h. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const sign = seconds < 0 ? "−" : "";
  const total = Math.abs(seconds);
  if (total > 0 && total < 1) return `${sign}${Math.round(total * 1000)}ms`;
  const whole = Math.round(total);
  if (whole < MINUTE) return `${sign}${whole}s`;
  if (whole < 10 * MINUTE) return sign + two(whole, MINUTE, "m", 1, "s");
  if (whole < HOUR) return `${sign}${Math.floor(whole / MINUTE)}m`;
  if (whole < DAY) return sign + two(whole, HOUR, "h", MINUTE, "m");
  return sign + two(whole, DAY, "d", HOUR, "h");
}

function two(whole: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((whole % large) / small);
  const first = `${Math.floor(whole / large)}${largeName}`;
  return rest ? `${first} ${rest}${smallName}` : first;
}

/** Seconds since 1970 of an RFC 3339 time; NaN where there is none. */
export function seconds(text: string | null | undefined): number {
  return text ? Date.parse(text) / 1000 : Number.NaN;
}

export function between(from: string | null | undefined, until: string | null | undefined): number | undefined {
  const passed = seconds(until) - seconds(from);
  return Number.isFinite(passed) ? passed : undefined;
}

/** 14:05:09, in UTC as everything the scheduler writes. */
export function clock(text: string | null | undefined): string {
  return text ? whole(text).slice(11) : "–";
}

export function dateTime(text: string | null | undefined): string {
  return text ? whole(text) : "–";
}

/** 2026-01-01 14:05:09, to the nearest second; text that is no time stays unchanged. */
function whole(text: string): string {
  const value = seconds(text);
  return Number.isFinite(value) ? fromSeconds(Math.round(value)).replace("T", " ").slice(0, -1) : text;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] as const;

/** 3 Jan. */
export function dayMonth(text: string): string {
  return `${Number(text.slice(8, 10))} ${MONTHS[Number(text.slice(5, 7)) - 1] ?? ""}`;
}

/** The mark of a time axis: 14:05, 14:05:30, or the date at midnight. */
export function timeMark(stamp: number): string {
  const text = fromSeconds(stamp);
  const time = clock(text);
  return time === "00:00:00" ? dayMonth(text) : time.endsWith(":00") ? time.slice(0, 5) : time;
}

/** Replaces RFC 3339 times inside a sentence by readable ones. */
export function readable(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, whole);
}

export function fromSeconds(value: number): string {
  return new Date(value * 1000).toISOString().replace(/\.\d+Z$/, "Z");
}

/** Round steps of a time axis: about `most` of them over `span` seconds. */
export function timeStep(span: number, most: number): number {
  const steps = [1, 5, 10, 30, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY];
  return steps.find((step) => span / step <= most) ?? Math.ceil(span / most / DAY) * DAY;
}
