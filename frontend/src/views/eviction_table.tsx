/** Evictions as a table: evicted pod, claimant, rule, work lost. */

import type { Schemas } from "../api/client";
import { href } from "../app/route";
import { dateTime, duration } from "../format/time";
import { JobLink } from "./job_cells";

export function EvictionTable(props: { rows: readonly Schemas["EvictionEntry"][]; leaveOut?: "job" | "for" }) {
  const { leaveOut } = props;
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label="Evictions">
      <table>
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Evicted</th>
            {leaveOut === "for" ? null : <th scope="col">For</th>}
            <th scope="col">Rule</th>
            <th scope="col">Node</th>
            <th scope="col" class="number">Work lost</th>
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={row.id}>
              <td class="nowrap small">{dateTime(row.at)}</td>
              <th scope="row">
                {leaveOut === "job" ? row.pod.slice(row.pod.indexOf("/") + 1) : <JobLink job={row.job} />}{" "}
                {leaveOut === "job" ? null : <span class="soft small">{row.queue}</span>}
              </th>
              {leaveOut === "for" ? null : <td>{row.forJob ? <JobLink job={row.forJob} /> : "–"} <span class="soft small">{row.forQueue}</span></td>}
              <td title={row.reason}>{row.rule}<span class="soft small"> {row.reason}</span></td>
              <td class="nowrap"><a href={href(["nodes"], { node: row.node })}>{row.node}</a></td>
              <td class="number">{duration(row.lostSeconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
