/** The fleet: clusters with what fits, and placements with scores and reasons. */

import type { Schemas } from "../api/client";
import { useGet } from "../api/use";
import { byRank, count, plural, shortName, shown } from "../format/amounts";
import { duration } from "../format/time";
import { Empty, Loading, Panel, Problem, Tag, View } from "../ui/basics";
import { Meter } from "../ui/bars";

export function FleetView() {
  const { data, error, reload } = useGet("/api/v1/fleet", {}, ["fleet"]);
  const connected = data?.connected && error === null;
  return (
    <View title="Fleet" note={connected ? `${plural(data.clusters.length, "cluster")}, ${plural(data.placements.length, "placement")}` : null}>
      {error && error.status !== 404 ? <Problem error={error} retry={reload} what="The fleet" /> : null}
      {!data && !error ? <Loading what="the fleet" /> : null}
      {error?.status === 404 || (data && !data.connected) ? (
        <div class="panel"><Empty title="No hub is connected">Start <code>fairway run</code> with <code>--report-to</code> and the hub's kubeconfig to see its clusters and placements.</Empty></div>
      ) : null}
      {connected ? (
        <>
          <Clusters rows={data.clusters} />
          {data.placements.length === 0 ? <div class="panel"><Empty title="No placements" /></div> : null}
          {data.placements.map((one) => <Placement key={one.placement} placement={one} />)}
        </>
      ) : null}
    </View>
  );
}

function Clusters(props: { rows: readonly Schemas["FleetPage"]["clusters"][number][] }) {
  return (
    <Panel title="Clusters">
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of clusters">
        <table>
          <thead>
            <tr><th scope="col">Cluster</th><th scope="col">State</th><th scope="col">Free</th><th scope="col">Pods that fit, by size</th><th scope="col" class="number">Placements</th><th scope="col" class="number">Report</th></tr>
          </thead>
          <tbody>
            {props.rows.map((row) => (
              <tr key={row.name}>
                <th scope="row">{row.name}</th>
                <td>
                  <Tag state={row.available ? "Ready" : "NotReady"} text={row.available ? "available" : "not available"} />
                  {row.taints.length > 0 ? <p class="small soft">{row.taints.join(", ")}</p> : null}
                  {row.problems.map((problem) => <p key={problem} class="small problem">{problem}</p>)}
                </td>
                <td class="small">{row.free ? Object.keys(row.free).sort(byRank).map((name) => `${shown(name, row.free?.[name])} ${shortName(name)}`).join(", ") : "not reported"}</td>
                <td class="small">
                  {row.shapes.map((shape, index) => (
                    <p key={index}><b class="number">{count(shape.fits)}</b> of {Object.keys(shape.request).sort(byRank).map((name) => `${shape.request[name]} ${shortName(name)}`).join(", ")}{Object.keys(shape.nodeSelector).length > 0 ? <span class="soft"> on {Object.entries(shape.nodeSelector).map(([key, value]) => `${key}=${value}`).join(", ")}</span> : null}</p>
                  ))}
                </td>
                <td class="number">{count(row.placements)}</td>
                <td class="number small">{row.reportAge === null ? "–" : `${duration(row.reportAge)} ago`}{row.reportEnded ? ", ended" : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** Conditions worth showing: that nothing is misconfigured is not one of them. */
function standing(conditions: readonly Schemas["FleetCondition"][]): string {
  const told = conditions.filter((one) => one.type !== "PlacementMisconfigured" || one.status === "True");
  return told.map((one) => `${one.status === "True" ? "" : "not satisfied: "}${one.message}`).join("; ");
}

function Placement(props: { placement: Schemas["FleetPage"]["placements"][number] }) {
  const { placement } = props;
  const most = Math.max(1, ...placement.decisions.map((one) => Math.abs(one.score)));
  return (
    <Panel title={placement.placement} note={standing(placement.conditions)}>
      {placement.warnings.map((warning) => <p key={warning} class="problem small">{warning}</p>)}
      {placement.decisions.length > 0 ? (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={`Clusters of ${placement.placement}`}>
          <table>
            <thead><tr><th scope="col">Chosen</th><th scope="col" class="wide">Score</th><th scope="col">Reason, with the score of each prioritizer</th></tr></thead>
            <tbody>
              {placement.decisions.map((one) => (
                <tr key={one.cluster}>
                  <th scope="row">{one.cluster}</th>
                  <td><Meter part={one.score / most} label="Score" text={count(one.score)} /></td>
                  <td class="small">{one.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p>No cluster was chosen.</p>
      )}
      {placement.filtered.length > 0 ? (
        <details>
          <summary>{plural(placement.filtered.length, "cluster")} left out</summary>
          <table>
            <tbody>
              {placement.filtered.map((one) => (
                <tr key={one.cluster}><th scope="row">{one.cluster}</th><td class="soft">{one.filter}</td><td class="small">{one.reason}</td></tr>
              ))}
            </tbody>
          </table>
        </details>
      ) : null}
    </Panel>
  );
}
