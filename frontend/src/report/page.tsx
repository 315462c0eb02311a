/** A recorded report as a page: the frame and the parts of the served page, with data that the document carries. */

import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Frame } from "../app/frame";
import { useRoute } from "../app/route";
import { Empty } from "../ui/basics";
import { About, Comparison, Evictions, Fleet, Nodes, Overview, Shares, Waits } from "./views";
import type { Report } from "./data";

interface ReportEntry {
  readonly name: string;
  readonly title: string;
  readonly view: ComponentType<{ report: Report }>;
  readonly shown: (report: Report) => boolean;
}

const always = (): boolean => true;

const VIEWS: readonly ReportEntry[] = [
  { name: "comparison", title: "Comparison", view: Comparison, shown: (report) => report.comparison !== null },
  { name: "overview", title: "Overview", view: Overview, shown: always },
  { name: "shares", title: "Shares", view: Shares, shown: always },
  { name: "waits", title: "Waits", view: Waits, shown: always },
  { name: "evictions", title: "Evictions", view: Evictions, shown: always },
  { name: "nodes", title: "Nodes", view: Nodes, shown: always },
  { name: "fleet", title: "Fleet", view: Fleet, shown: (report) => report.runs.some((run) => run.fleet !== null) },
  { name: "about", title: "About", view: About, shown: always },
];

export function ReportPage(props: { report: Report }) {
  const { report } = props;
  const route = useRoute();
  const entries = VIEWS.filter((entry) => entry.shown(report));
  const current = route.path.length === 0 ? entries[0] : entries.find((entry) => entry.name === route.path[0]);
  useEffect(() => {
    document.title = `${current?.title ?? "Not found"} · ${report.title} – Fairway`;
  }, [current, report]);
  const head = (
    <>
      <span class="source" title={report.subtitle}>{report.title}</span>
      <span class="spring" />
      <span class="link-state" data-state="recorded">Report</span>
    </>
  );
  return (
    <Frame entries={entries} current={current?.name ?? ""} place={route.path.join("/")} head={head}>
      {current ? <current.view report={report} /> : <Empty title="There is no such view" />}
    </Frame>
  );
}
