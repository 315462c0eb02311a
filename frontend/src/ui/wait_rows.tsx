/** Waits of groups of jobs as a table, with a bar for a high percentile. */

import { count } from "../format/amounts";
import { duration } from "../format/time";
import { Meter } from "./bars";

export interface WaitRow {
  readonly group: string;
  readonly jobs: number;
  readonly median: number;
  readonly mean: number;
  /** The percentile that the bar shows; `high` of the table names it. */
  readonly high: number;
  readonly longest: number;
  readonly slowdown?: number;
}

/** `top` is the end of the bars, for tables side by side; else the largest value of this one. */
export function WaitRows(props: { head: string; high: string; rows: readonly WaitRow[]; top?: number }) {
  const top = props.top ?? Math.max(1, ...props.rows.map((row) => row.high));
  const slowed = props.rows.some((row) => row.slowdown !== undefined);
  if (props.rows.length === 0) return null;
  return (
    <div class="scroll-x waits" tabIndex={0} role="region" aria-label={`Waits by ${props.head.toLowerCase()}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{props.head}</th><th scope="col" class="number">Jobs</th><th scope="col" class="number">Median</th>
            <th scope="col" class="number">Mean</th><th scope="col" class="wide">{props.high}</th><th scope="col" class="number">Longest</th>
            {slowed ? <th scope="col" class="number" title="Mean bounded slowdown">Slowdown</th> : null}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={row.group}>
              <th scope="row">{row.group}</th>
              <td class="number">{count(row.jobs)}</td>
              <td class="number">{duration(row.median)}</td>
              <td class="number">{duration(row.mean)}</td>
              <td><Meter part={row.high / top} label={props.high} text={duration(row.high)} /></td>
              <td class="number">{duration(row.longest)}</td>
              {slowed ? <td class="number">{row.slowdown?.toFixed(2) ?? "–"}</td> : null}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
