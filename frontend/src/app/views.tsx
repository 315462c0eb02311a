/** The views of the page, in the order of the navigation. */

import type { ComponentType } from "preact";
import type { Schemas } from "../api/client";
import { DevicesView } from "../views/devices";
import { EvictionsView } from "../views/evictions";
import { FleetView } from "../views/fleet";
import { HistoryView } from "../views/history";
import { JobView } from "../views/job";
import { JobsView } from "../views/jobs";
import { NodesView } from "../views/nodes";
import { QueuesView } from "../views/queues";
import { SchedulerView } from "../views/scheduler";
import { WhatIfView } from "../views/what_if";
import { Empty, View } from "../ui/basics";
import { href, type Route } from "./route";

type Capabilities = Schemas["ViewCapabilities"];

export interface ViewEntry {
  readonly name: string;
  readonly title: string;
  readonly view: ComponentType<{ route: Route }>;
  readonly shown: (capabilities: Capabilities) => boolean;
}

const always = (): boolean => true;

export const VIEWS: readonly ViewEntry[] = [
  { name: "jobs", title: "Jobs", view: JobsOrJob, shown: always },
  { name: "queues", title: "Queues", view: QueuesView, shown: always },
  { name: "nodes", title: "Nodes", view: NodesView, shown: always },
  { name: "devices", title: "Devices", view: DevicesView, shown: always },
  { name: "evictions", title: "Evictions", view: EvictionsView, shown: always },
  { name: "history", title: "History", view: HistoryView, shown: (can) => can.history },
  { name: "scheduler", title: "Scheduler", view: SchedulerView, shown: always },
  { name: "what-if", title: "What if", view: WhatIfView, shown: (can) => can.whatIf },
  { name: "fleet", title: "Fleet", view: FleetView, shown: (can) => can.fleet },
];

const UNKNOWN: ViewEntry = { name: "", title: "", view: UnknownView, shown: always };

export function viewOf(path: readonly string[]): ViewEntry {
  if (path.length === 0) return VIEWS[0] ?? UNKNOWN;
  return VIEWS.find((view) => view.name === path[0]) ?? UNKNOWN;
}

function JobsOrJob(props: { route: Route }) {
  const [, namespace, ...name] = props.route.path;
  if (namespace && name.length > 0) {
    const job = `${namespace}/${name.join("/")}`;
    return <JobView key={job} job={job} />;
  }
  return <JobsView />;
}

function UnknownView() {
  return (
    <View title="Not found">
      <div class="panel">
        <Empty title="There is no such view"><a href={href(["jobs"])}>Show all jobs</a></Empty>
      </div>
    </View>
  );
}
