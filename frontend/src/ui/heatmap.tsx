/** Thousands of nodes as cells on a canvas: shade for use, marks for reserved, cordoned and not ready. */

import { useEffect, useRef, useState } from "preact/hooks";
import { cellAt, layout, moved, NAMED, step, summary, type Layout } from "./heat";
import { percent } from "../format/amounts";
import { themeColour, useSize, useTheme } from "./size";

export interface Cell {
  readonly name: string;
  readonly part: number;
  readonly reserved: boolean;
  /** Ready, NotReady or SchedulingDisabled. */
  readonly state: string;
  /** Text shown while it has the focus. */
  readonly text: string;
}

/** Around all cells: the frame of the chosen one is wider than a cell. */
const MARGIN = 3;

export function HeatMap(props: {
  cells: readonly Cell[];
  what: string;
  selected: string | null;
  onSelect: (name: string) => void;
}) {
  const { cells } = props;
  const [frame, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const [focus, setFocus] = useState<number | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const plan = layout(cells.length, Math.max(1, size.width - 2 * MARGIN), cells.length < 100 ? 260 : 420);
  const chosen = cells.findIndex((cell) => cell.name === props.selected);
  const at = hover ?? focus ?? (chosen >= 0 ? chosen : null);
  const height = plan.rows * plan.step + 2 * MARGIN;

  useEffect(() => {
    if (canvas.current && size.width) draw(canvas.current, cells, plan, size.width, focus, chosen);
  }, [cells, size.width, focus, chosen, theme]);

  const onKeyDown = (event: KeyboardEvent): void => {
    const from = focus ?? Math.max(0, chosen);
    const to = moved(event.key, from, plan, cells.length);
    if (to !== undefined) setFocus(to);
    else if (event.key === "Enter" || event.key === " ") props.onSelect(cells[from]?.name ?? "");
    else return;
    event.preventDefault();
  };
  const find = (event: MouseEvent): number | null => cellAt(event.offsetX - MARGIN, event.offsetY - MARGIN, plan, cells.length);

  return (
    <div class="heat" ref={frame}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="heat map"
        aria-label={`${summary(cells.map((cell) => cell.part), props.what)}. Arrow keys move, Enter opens a node.`}
        style={{ width: `${size.width}px`, height: `${height}px` }}
        onKeyDown={onKeyDown}
        onFocus={() => setFocus((old) => old ?? Math.max(0, chosen))}
        onBlur={() => setFocus(null)}
        onMouseMove={(event) => setHover(find(event))}
        onMouseLeave={() => setHover(null)}
        onClick={(event) => {
          const index = find(event);
          if (index !== null) props.onSelect(cells[index]?.name ?? "");
        }}
      />
      <p class="heat-text" role="status">
        {at === null ? <span class="soft">Point at a node, or use the arrow keys.</span> : cells[at]?.text}
      </p>
    </div>
  );
}

function draw(
  canvas: HTMLCanvasElement, cells: readonly Cell[], plan: Layout, width: number, focus: number | null, chosen: number,
): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round((plan.rows * plan.step + 2 * MARGIN) * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  pen.translate(MARGIN, MARGIN);
  const shades = [0, 1, 2, 3, 4, 5].map((number) => themeColour(`--heat-${number}`));
  const ink = themeColour("--ink");
  const panel = themeColour("--panel");
  const edge = themeColour("--line-strong");
  const side = plan.step - plan.gap;
  cells.forEach((cell, index) => {
    const x = (index % plan.columns) * plan.step;
    const y = Math.floor(index / plan.columns) * plan.step;
    const shade = step(cell.part);
    pen.fillStyle = shades[shade] ?? "";
    pen.fillRect(x, y, side, side);
    if (shade === 0) frameCell(pen, x, y, side, edge, 1);
    if (cell.reserved) hatch(pen, x, y, side, shade >= 3 ? panel : ink, plan.step >= NAMED ? 0.35 : 1);
    if (plan.step >= NAMED) nameCell(pen, x, y, side, cell, shade >= 3 ? panel : ink);
    else if (cell.state !== "Ready") cross(pen, x, y, side, shade >= 3 ? panel : ink, cell.state === "NotReady");
  });
  for (const [index, colour] of [[chosen, themeColour("--accent")], [focus ?? -1, themeColour("--focus")]] as const) {
    if (index < 0) continue;
    const x = (index % plan.columns) * plan.step;
    const y = Math.floor(index / plan.columns) * plan.step;
    frameCell(pen, x - 1, y - 1, side + 2, panel, 4);
    frameCell(pen, x - 1, y - 1, side + 2, colour, 2);
  }
}

/** Large cells carry the node's name, how much is in use, and its state in a word. */
function nameCell(pen: CanvasRenderingContext2D, x: number, y: number, side: number, cell: Cell, colour: string): void {
  const short = cell.name.length > 10 ? `…${cell.name.slice(-9)}` : cell.name;
  const state = cell.state === "NotReady" ? "not ready" : cell.state === "SchedulingDisabled" ? "cordoned" : cell.reserved ? "reserved" : "";
  pen.fillStyle = colour;
  pen.font = `600 12px ${themeColour("--font")}`;
  pen.fillText(short, x + 7, y + 18, side - 12);
  pen.font = `11px ${themeColour("--font")}`;
  pen.fillText(percent(cell.part), x + 7, y + 34, side - 12);
  pen.fillText(state, x + 7, y + side - 9, side - 12);
}

function frameCell(pen: CanvasRenderingContext2D, x: number, y: number, side: number, colour: string, line: number): void {
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.globalAlpha = line === 1 ? 0.45 : 1;
  pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
  pen.globalAlpha = 1;
}

function hatch(pen: CanvasRenderingContext2D, x: number, y: number, side: number, colour: string, strength: number): void {
  pen.save();
  pen.globalAlpha = strength;
  pen.beginPath();
  pen.rect(x, y, side, side);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let shift = -side; shift < side; shift += Math.max(3, Math.min(8, side / 4))) {
    pen.moveTo(x + shift, y + side);
    pen.lineTo(x + shift + side, y);
  }
  pen.stroke();
  pen.restore();
}

function cross(pen: CanvasRenderingContext2D, x: number, y: number, side: number, colour: string, both: boolean): void {
  const inset = side * 0.22;
  pen.strokeStyle = colour;
  pen.lineWidth = Math.max(1, side / 9);
  pen.beginPath();
  if (both) {
    pen.moveTo(x + inset, y + inset);
    pen.lineTo(x + side - inset, y + side - inset);
    pen.moveTo(x + side - inset, y + inset);
    pen.lineTo(x + inset, y + side - inset);
  } else {
    pen.moveTo(x + side * 0.36, y + inset);
    pen.lineTo(x + side * 0.36, y + side - inset);
    pen.moveTo(x + side * 0.64, y + inset);
    pen.lineTo(x + side * 0.64, y + side - inset);
  }
  pen.stroke();
}

export function HeatLegend() {
  return (
    <ul class="legend" aria-label="Legend of the heat map">
      {["idle", "to 20%", "to 40%", "to 60%", "to 80%", "to 100%"].map((text, index) => (
        <li key={text}><span class={`key heat-${index}`} /> {text}</li>
      ))}
      <li><span class="key hatched" /> reserved</li>
      <li><span class="key signed" aria-hidden="true">‖</span> cordoned</li>
      <li><span class="key signed" aria-hidden="true">✕</span> not ready</li>
    </ul>
  );
}
