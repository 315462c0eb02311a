/** All jobs: filtered, grouped and sorted by the server; the address holds what is shown. */

import { useLink, usePage } from "../api/use";
import { go, href, useQuery } from "../app/route";
import { count, plural } from "../format/amounts";
import { Empty, Loading, Problem, View } from "../ui/basics";
import { Chips, Facet, SearchBox } from "../ui/filter";
import { Grid } from "../ui/grid";
import { Below, jobColumns, jobPath } from "./job_cells";
import { FACETS, GroupBy, Groups, LabelFilter, TITLES } from "./job_groups";
import { useJobRows } from "./job_rows";

export function JobsView() {
  const [query, change] = useQuery();
  const link = useLink();
  const sort = query.get("sort") ?? "order";
  const group = query.get("group") ?? "";
  const rows = useJobRows({
    ...Object.fromEntries([...FACETS, "label"].map((name) => [name, query.getAll(name)])),
    search: query.get("search"), sort, group,
  });
  const clear = (): void => change({ state: null, queue: null, namespace: null, reason: null, label: null, search: null });
  const chips = [...FACETS, "label" as const].flatMap((name) =>
    query.getAll(name).map((value) => ({
      key: `${name}=${value}`,
      text: `${TITLES[name].toLowerCase()}: ${value || "(none)"}`,
      remove: () => change({ [name]: query.getAll(name).filter((one) => one !== value) }),
    })),
  );
  const filtered = chips.length > 0 || query.has("search");
  return (
    <View title="Jobs" note={<Counts />}>
      <div class="filters">
        <SearchBox label="Find jobs by name" value={query.get("search") ?? ""} onChange={(search) => change({ search })} />
        {FACETS.map((name) => (
          <Facet
            key={name}
            title={TITLES[name]}
            options={rows.facets?.[name] ?? []}
            chosen={query.getAll(name)}
            onChange={(chosen) => change({ [name]: chosen })}
          />
        ))}
        <LabelFilter keys={rows.facets?.labels ?? []} add={(label) => change({ label: [...query.getAll("label"), label] })} />
        <GroupBy value={group} labels={rows.facets?.labels ?? []} onChange={(value) => change({ group: value })} />
      </div>
      <Chips chips={chips} clear={clear} />
      {rows.error ? <Problem error={rows.error} retry={rows.reload} what="The jobs" /> : null}
      {group && rows.groups ? <Groups group={group} rows={rows} choose={(patch) => change(patch)} /> : null}
      {rows.total === null ? (
        rows.error ? null : <Loading what="jobs" />
      ) : (
        <Grid
          label={`Jobs, ${plural(rows.total, "row")}`}
          columns={jobColumns(link.now)}
          count={rows.total}
          rowAt={rows.rowAt}
          keyOf={(row) => row.job}
          onRange={rows.onRange}
          onOpen={(row) => go(href(jobPath(row.job)))}
          sort={sort}
          onSort={(value) => change({ sort: value })}
          below={{ column: "reason", cell: (row) => <Below row={row} now={link.now} /> }}
          most={40}
          start={rowShownBefore()}
          onActive={(row) => history.replaceState({ row }, "")}
          empty={<NoJobs filtered={filtered} clear={clear} />}
        />
      )}
    </View>
  );
}

/** The row that was active when this entry of the browser's history was left. */
function rowShownBefore(): number {
  const kept = (history.state as { row?: unknown } | null)?.row;
  return typeof kept === "number" ? kept : 0;
}

function Counts() {
  const { summary } = useLink();
  if (!summary) return null;
  const { waiting, starting, running, finished } = summary.jobs;
  const parts = [`${count(waiting ?? 0)} waiting`, `${count(running ?? 0)} running`, `${count(finished ?? 0)} finished`];
  if (starting) parts.splice(1, 0, `${count(starting)} starting`);
  return <>{parts.join(" · ")}</>;
}

function NoJobs(props: { filtered: boolean; clear: () => void }) {
  const { session } = usePage();
  if (!props.filtered) {
    return (
      <div class="panel">
        <Empty title="No jobs">
          {session.source === "sandbox" ? <>In another terminal: <code>fairway apply -f examples/sandbox/gang.yaml</code></> : "Pods that name this scheduler appear here."}
        </Empty>
      </div>
    );
  }
  return (
    <div class="panel">
      <Empty title="No job matches these filters">
        <button type="button" onClick={props.clear}>Clear all filters</button>
      </Empty>
    </div>
  );
}
