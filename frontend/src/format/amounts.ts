/** Reads, compares and formats Kubernetes amounts ("500m", "64Gi", "12"). */

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};
const QUANTITY = /^([+-]?[0-9.]+(?:e[+-]?[0-9]+)?)([numkMGTPE]?|[KMGTPE]i)$/i;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** The value of an amount; 0 if it is missing or unreadable. */
export function amount(text: string | number | null | undefined): number {
  if (typeof text === "number") return text;
  const found = QUANTITY.exec((text ?? "").trim());
  if (!found) return 0;
  const factor = SUFFIXES[found[2] ?? ""];
  return factor === undefined ? 0 : Number(found[1]) * factor;
}

export function isBytes(resource: string): boolean {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

/** At most three significant digits, with a narrow space between thousands: 12, 1.5, 1 204. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  const [whole = "", part] = value.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, " ");
  const rest = part?.replace(/0+$/, "");
  return rest ? `${grouped}.${rest}` : grouped;
}

export function bytes(value: number): string {
  let place = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && place < BYTE_UNITS.length - 1) {
    rest /= 1024;
    place += 1;
  }
  return `${count(rest)} ${BYTE_UNITS[place]}`;
}

/** An amount of a resource with its unit where it has one. */
export function shown(resource: string, value: string | number | null | undefined): string {
  const number = amount(value);
  return isBytes(resource) ? bytes(number) : count(number);
}

export function percent(part: number): string {
  if (!Number.isFinite(part)) return "–";
  const value = part * 100;
  return value > 0 && value < 1 ? "<1%" : `${Math.round(value)}%`;
}

/** `gpu` of `nvidia.com/gpu`. */
export function shortName(resource: string): string {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

/** Scarce resources first, then cpu, memory, and the rest. */
export function byRank(one: string, other: string): number {
  const rank = (name: string): number =>
    name.includes("/") ? 0 : name === "cpu" ? 1 : name === "memory" ? 2 : 3;
  return rank(one) - rank(other) || one.localeCompare(other);
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
