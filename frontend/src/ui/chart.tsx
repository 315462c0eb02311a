/** Lines over time, drawn by uPlot; on demand, the same figures as an accessible table. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Schemas } from "../api/client";
import { bytes, count, percent, shortName } from "../format/amounts";
import { dateTime, duration, fromSeconds, timeMark } from "../format/time";
import { themeColour, useSize, useTheme } from "./size";

type Series = Schemas["TimeSeries"];

/** Lines differ by colour and by dashes. */
const DASHES: readonly number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4], [6, 2, 2, 2, 2, 2]];
const COLOURS = 8;
const MAX_LINES = 12;
const MAX_ROWS = 60;

export function valueText(unit: Series["unit"], value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (unit === "share") return percent(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "seconds") return duration(value);
  if (unit === "milliseconds") return value < 1000 ? `${count(value)} ms` : duration(value / 1000);
  return count(value);
}

/** What charts side by side have in common, so that they can be compared. */
export interface ChartScale {
  readonly from: number;
  readonly until: number;
  readonly top: number;
}

/** With `scale`, values are means over the interval that ends at their time: steps that lead up to it. */
export function Chart(props: { series: Series; height?: number; none?: string; scale?: ChartScale }) {
  const series = useMemo(() => withShortNames(props.series), [props.series]);
  const [frame, size] = useSize<HTMLDivElement>();
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [tabled, setTabled] = useState(false);
  const lines = series.lines.slice(0, MAX_LINES);
  const more = series.lines.length - lines.length;
  const toggle = (name: string): void =>
    setHidden((old) => {
      const next = new Set(old);
      if (!next.delete(name)) next.add(name);
      return next;
    });
  if (series.times.length < 2 || lines.length === 0) {
    const nothing = series.times.length >= 2 && props.none ? props.none : "Not enough has been recorded yet.";
    return <p class="soft chart-empty">{nothing}</p>;
  }
  return (
    <figure class="chart">
      <div ref={frame}>
        {tabled ? (
          <SeriesTable series={series} />
        ) : (
          <Plot series={{ ...series, lines }} width={size.width} height={props.height ?? 170} hidden={hidden} scale={props.scale} />
        )}
      </div>
      <figcaption>
        <ul class="legend">
          {lines.map((line, index) => (
            <li key={line.name}>
              <button type="button" class="plain line-key" aria-pressed={!hidden.has(line.name)} onClick={() => toggle(line.name)}>
                <Sample index={index} /> {line.name}
                {props.scale ? null : <span class="number soft"> {valueText(series.unit, last(line.values))}</span>}
              </button>
            </li>
          ))}
          {more > 0 ? <li class="soft">and {more} more in the table</li> : null}
        </ul>
        <button type="button" class="plain" onClick={() => setTabled(!tabled)}>
          {tabled ? "Show as chart" : "Show as table"}
        </button>
      </figcaption>
    </figure>
  );
}

/** Lines of resources by their short names, as everywhere on the page. */
function withShortNames(series: Series): Series {
  return { ...series, lines: series.lines.map((line) => ({ ...line, name: shortName(line.name) })) };
}

function Plot(props: { series: Series; width: number; height: number; hidden: ReadonlySet<string>; scale?: ChartScale | undefined }) {
  const target = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const { series, width, height } = props;
  const shape = series.lines.map((line) => line.name).join("\n") + [...props.hidden].join("\n");
  const plot = useRef<uPlot | null>(null);
  const data = [series.times, ...series.lines.map((line) => line.values)] as uPlot.AlignedData;
  useEffect(() => {
    if (!target.current || !width) return undefined;
    plot.current = new uPlot(options(series, width, height, props.hidden, props.scale), data, target.current);
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, width, height, theme, series.unit]);
  useEffect(() => plot.current?.setData(data), [series]);
  return <div class="plot" ref={target} role="img" aria-label={describe(series)} style={{ minHeight: `${height}px` }} />;
}

function options(series: Series, width: number, height: number, hidden: ReadonlySet<string>, scale?: ChartScale): uPlot.Options {
  const axis = {
    stroke: themeColour("--ink-soft"),
    grid: { stroke: themeColour("--line"), width: 1 },
    ticks: { stroke: themeColour("--line"), width: 1, size: 4 },
    font: `11px ${themeColour("--font")}`,
  };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 28, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), "UTC"),
    scales: scale
      ? { x: { range: [scale.from, scale.until] }, y: { range: [0, scale.top > 0 ? scale.top * 1.06 : 1] } }
      : { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? high * 1.06 : 1] } },
    axes: [{ ...axis, size: 26, values: (_, marks) => marks.map(timeMark) }, { ...axis, size: 62, values: (_, marks) => marks.map((mark) => valueText(series.unit, mark)) }],
    series: [
      {},
      ...series.lines.map((line, index) => ({
        label: line.name,
        show: !hidden.has(line.name),
        stroke: themeColour(`--series-${(index % COLOURS) + 1}`),
        width: 1.75,
        dash: DASHES[index % DASHES.length] ?? [],
        points: { show: false },
        ...paths(series, scale),
      })),
    ],
    plugins: [tooltip(series)],
  };
}

/** Counts keep their value until the next one, means over an interval fill it: steps, not slopes. */
function paths(series: Series, scale?: ChartScale): { paths?: uPlot.Series.PathBuilder } {
  const stepped = scale || series.unit === "count" ? uPlot.paths.stepped?.({ align: scale ? -1 : 1 }) : undefined;
  return stepped ? { paths: stepped } : {};
}

/** The values at the pointer, as text beside it. */
function tooltip(series: Series): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "plot-tip";
  return {
    hooks: {
      init: (plot) => {
        plot.over.append(box);
      },
      setCursor: (plot) => {
        const index = plot.cursor.idx;
        const left = plot.cursor.left ?? -1;
        box.hidden = index === null || index === undefined || left < 0;
        if (box.hidden || index === null || index === undefined) return;
        const rows = series.lines.filter((_, number) => plot.series[number + 1]?.show);
        const lines = rows.map((line) => `${line.name}  ${valueText(series.unit, line.values[index])}`);
        box.textContent = [dateTime(fromSeconds(plot.data[0][index] ?? 0)), ...lines].join("\n");
        const right = left > plot.over.clientWidth / 2;
        box.style.left = right ? "auto" : `${left + 12}px`;
        box.style.right = right ? `${plot.over.clientWidth - left + 12}px` : "auto";
      },
    },
  };
}

function SeriesTable(props: { series: Series }) {
  const { series } = props;
  const stride = Math.max(1, Math.ceil(series.times.length / MAX_ROWS));
  const rows = series.times.map((_, index) => index).filter((index) => (series.times.length - 1 - index) % stride === 0);
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={`${series.title} as a table`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.lines.map((line) => <th key={line.name} scope="col" class="number">{line.name}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.reverse().map((index) => (
            <tr key={index}>
              <th scope="row" class="nowrap">{dateTime(fromSeconds(series.times[index] ?? 0))}</th>
              {series.lines.map((line) => (
                <td key={line.name} class="number">{valueText(series.unit, line.values[index])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Sample(props: { index: number }) {
  return (
    <svg class={`sample series-${(props.index % COLOURS) + 1}`} width="22" height="8" aria-hidden="true">
      <line x1="0" x2="22" y1="4" y2="4" stroke-dasharray={(DASHES[props.index % DASHES.length] ?? []).join(" ")} />
    </svg>
  );
}

function describe(series: Series): string {
  const ends = series.lines.slice(0, MAX_LINES).map((line) => `${line.name} ${valueText(series.unit, last(line.values))}`);
  const from = dateTime(fromSeconds(series.times[0] ?? 0));
  const until = dateTime(fromSeconds(series.times[series.times.length - 1] ?? 0));
  return `${series.title} from ${from} to ${until}. Last values: ${ends.join(", ")}.`;
}

function last(values: readonly (number | null)[]): number | null {
  for (let index = values.length - 1; index >= 0; index -= 1) {
    const value = values[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
