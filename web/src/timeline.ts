/** When each rank communicated and computed. */
import { categoryAxis, frame, valueAxis } from "./axes";
import {
  type Choice,
  type Drawer,
  isNarrow,
  isOn,
  type LegendEntry,
  type Scene,
  spanOf,
  type Switch,
} from "./drawer";
import { coloursOf } from "./palette";
import { type Layer, paintedSeries, type Window } from "./rectangles";
import { type Column, type Figure, numberAt, textAt } from "./report_data";
import { Strip, timelineColumns, TimelineModel } from "./timeline_model";
import { bandwidthText, exactText, timeMark, timeText } from "./units";

const mostRanks = 64;
const mostLanes = 96;
const everything = "all";

class Timeline implements Drawer {
  readonly choices: Choice[] = [];
  readonly switches: Switch[] = [];
  readonly zoom = "x";
  private readonly axes: string[];
  private readonly names = new Map<Column, string[]>();

  constructor(
    private readonly figure: Figure,
    private readonly model: TimelineModel,
  ) {
    const { iterations } = model;
    if (iterations.length > 1) {
      const options = iterations.map((iteration) => ({
        value: String(iteration),
        label: iteration < 0 ? "init" : String(iteration),
      }));
      options.push({ value: everything, label: "all" });
      const initial = options[options.length - 2]!.value;
      this.choices.push({ id: "iteration", label: "Iteration", options, initial, form: "steps" });
    }
    if (model.ranks.length > mostRanks) this.choices.push(this.rankChoice());
    this.axes = this.namesOf(model.columns.axis);
    if (this.axes.length > 1) {
      const options = [
        { value: "op", label: "op" },
        { value: "axis", label: "axis" },
      ];
      this.choices.push({ id: "colour", label: "Colour by", options, initial: "op", form: "buttons" });
      const lanes = this.axes.length * Math.min(model.ranks.length, mostRanks);
      this.switches.push({ id: "lanes", label: "Row per axis", initial: lanes <= mostLanes });
    }
  }

  private rankChoice(): Choice {
    const { ranks } = this.model;
    const every = Math.ceil(ranks.length / mostRanks);
    const options = [{ value: `0+${every}`, label: `1 of ${every} ranks` }];
    for (let from = 0; from < ranks.length; from += mostRanks) {
      const last = Math.min(from + mostRanks, ranks.length) - 1;
      options.push({ value: `${from}+1`, label: `${ranks[from]} to ${ranks[last]}` });
    }
    return { id: "ranks", label: "Ranks", options, initial: options[0]!.value, form: "list" };
  }

  /** Names of a column of texts in the order of the rows, of calls alone: compute has its own shade. */
  private namesOf(column: Column | undefined): string[] {
    if (!column) return [];
    let names = this.names.get(column);
    if (names) return names;
    names = [];
    const seen = new Uint8Array(column.dictionary?.length ?? 0);
    for (let row = 0; row < this.figure.rows; row++) {
      const code = column.values[row]!;
      if (seen[code] !== 0 || this.model.isCompute(row)) continue;
      seen[code] = 1;
      names.push(textAt(column, row));
    }
    this.names.set(column, names);
    return names;
  }

  /** Positions of the ranks shown. */
  private shownRanks(scene: Scene): number[] {
    const [from, every] = (scene.chosen.get("ranks") ?? "0+1").split("+").map(Number);
    const shown: number[] = [];
    for (let at = from!; at < this.model.ranks.length && shown.length < mostRanks; at += every!)
      shown.push(at);
    return shown;
  }

  /** Positions of the iterations shown. */
  private shownIterations(scene: Scene): number[] {
    const chosen = scene.chosen.get("iteration");
    const all = this.model.iterations.map((_, at) => at);
    return chosen === undefined || chosen === everything
      ? all
      : all.filter((at) => this.model.iterations[at] === Number(chosen));
  }

  private lanes(scene: Scene): number {
    return isOn(scene, "lanes") ? this.axes.length : 1;
  }

  subject(scene: Scene): string {
    const iteration = scene.chosen.get("iteration");
    if (iteration === undefined) return "";
    if (iteration === everything) return "all iterations";
    return Number(iteration) < 0 ? "initialisation" : `iteration ${iteration}`;
  }

  height(scene: Scene): number {
    const rows = this.shownRanks(scene).length;
    const lanes = this.lanes(scene);
    const lane = rows <= 12 ? 14 : 9;
    return 46 + rows * Math.max(this.rowHeight(rows), lanes > 1 ? 8 + lane * lanes : 0);
  }

  note(scene: Scene): string | null {
    return this.lanes(scene) > 1
      ? `a rank has a row for each axis; from the top: ${this.axes.join(", ")}.`
      : null;
  }

  private rowHeight(rows: number): number {
    return rows <= 12 ? 30 : rows <= 32 ? 18 : 11;
  }

  /** How many ranks lie between two that are named. */
  private labelSkip(rows: number): number {
    return this.rowHeight(rows) < 16 ? 3 : 0;
  }

  private colourColumn(scene: Scene): Column {
    return (scene.chosen.get("colour") === "axis" && this.model.columns.axis) || this.model.columns.op;
  }

  private hasCompute(): boolean {
    return this.model.columns.kind?.dictionary?.includes("compute") ?? false;
  }

  legend(scene: Scene): LegendEntry[] {
    const names = this.namesOf(this.colourColumn(scene));
    const colours = coloursOf(names, scene.palette);
    const entries = names.map((name) => ({ name, colour: colours.get(name)! }));
    return this.hasCompute() ? [...entries, { name: "compute", colour: scene.palette.compute }] : entries;
  }

  /** Start and end of the window. */
  private window(scene: Scene): [number, number, number] {
    const [first, last] = this.model.extent(this.shownIterations(scene));
    return [...spanOf(scene.x, first, last), first] as [number, number, number];
  }

  option(scene: Scene) {
    const [from, to, origin] = this.window(scene);
    const ranks = this.shownRanks(scene);
    const names = ranks.map((at) => `${isNarrow(scene) ? "" : "rank "}${this.model.ranks[at]}`);
    const span = to - from;
    return {
      ...frame(scene, { right: 16 }),
      xAxis: valueAxis(scene, "ns", {
        min: from - origin,
        max: to - origin,
        splitNumber: isNarrow(scene) ? 3 : 8,
        axisLabel: {
          formatter: (at: number) => timeMark(at, span),
          showMinLabel: from === origin,
          showMaxLabel: false,
        },
      }),
      yAxis: categoryAxis(scene, names, {
        inverse: true,
        axisLine: { show: false },
        axisLabel: { interval: this.labelSkip(ranks.length) },
      }),
      series: [paintedSeries((window) => this.paint(scene, window))],
    };
  }

  private paint(scene: Scene, window: Window): Layer[] {
    const [from, to, origin] = this.window(scene);
    const pixel = (time: number) => window.left + ((time - from) / (to - from)) * window.width;
    const entries = this.legend(scene);
    const layers = entries.map((entry) => ({ colour: entry.colour, rectangles: [] as number[] }));
    const rectangles = layers.map((layer) => layer.rectangles);
    const compute = entries.length - 1;
    const column = this.colourColumn(scene);
    const seriesOf = new Map(entries.map((entry, at) => [entry.name, at]));
    const lanes = this.lanes(scene);
    const shown = this.shownRanks(scene);
    const rowHeight = window.height / shown.length;
    for (const [place, rank] of shown.entries()) {
      const middle = window.pixel(from - origin, place)[1];
      const top = middle - rowHeight / 2;
      const pad = Math.min(3, rowHeight * 0.12);
      const laneHeight = (rowHeight - 2 * pad) / lanes;
      const ground = new Strip(top + pad / 2, rowHeight - pad, rectangles);
      const inset = this.hasCompute() ? Math.min(4, laneHeight * 0.18) : 0;
      const strips = Array.from(
        { length: lanes },
        (_, lane) =>
          new Strip(
            top + pad + lane * laneHeight + inset,
            Math.max(1, laneHeight - 2 * inset - (lanes > 1 ? 1 : 0)),
            rectangles,
          ),
      );
      for (const iteration of this.shownIterations(scene)) {
        this.model.each(iteration, rank, from, to, (row) => {
          const start = numberAt(this.model.columns.start, row);
          const left = Math.max(pixel(start), window.left - 2);
          const right = Math.min(
            pixel(start + numberAt(this.model.columns.duration, row)),
            window.left + window.width + 2,
          );
          const isCompute = this.model.isCompute(row);
          const name = isCompute ? "compute" : textAt(column, row);
          if (scene.hidden.has(name)) return;
          if (isCompute) ground.add(left, right, compute);
          else strips[this.laneOf(lanes, row)]!.add(left, right, seriesOf.get(name)!);
        });
      }
      for (const strip of [ground, ...strips]) strip.flush();
    }
    // Compute lies below the calls it overlaps with.
    return this.hasCompute() ? [layers[compute]!, ...layers.slice(0, compute)] : layers;
  }

  private laneOf(lanes: number, row: number): number {
    return lanes > 1 ? Math.max(0, this.axes.indexOf(textAt(this.model.columns.axis!, row))) : 0;
  }

  tip(scene: Scene, [x, y]: [number, number], [perPixel]: [number, number]) {
    const place = Math.round(y);
    const rank = this.shownRanks(scene)[place];
    if (rank === undefined) return null;
    const [, , origin] = this.window(scene);
    const lanes = this.lanes(scene);
    const lane = Math.min(lanes - 1, Math.max(0, Math.floor((y - place + 0.5) * lanes)));
    const row = this.nearest(scene, rank, x + origin, 3 * perPixel, lanes > 1 ? lane : -1);
    return row < 0 ? null : this.tipOf(row, rank, origin);
  }

  /** The call at a time, the shortest if there are several, else the nearest in reach, else what is computed. */
  private nearest(scene: Scene, rank: number, time: number, reach: number, lane: number): number {
    let best = -1;
    let bestScore = Number.POSITIVE_INFINITY;
    const { start, duration } = this.model.columns;
    for (const iteration of this.shownIterations(scene)) {
      this.model.each(iteration, rank, time - reach, time + reach, (row) => {
        const isCompute = this.model.isCompute(row);
        const name = isCompute ? "compute" : textAt(this.colourColumn(scene), row);
        if (scene.hidden.has(name) || (lane >= 0 && !isCompute && this.laneOf(2, row) !== lane)) return;
        const from = numberAt(start, row);
        const length = numberAt(duration, row);
        const away = Math.max(from - time, time - from - length, 0);
        if (isCompute && away > 0) return;
        const score = isCompute ? Number.MAX_VALUE : away * 1e6 + length;
        if (score < bestScore) [best, bestScore] = [row, score];
      });
    }
    return best;
  }

  private tipOf(row: number, rank: number, origin: number) {
    const { start, duration, op, axis, bytes, iteration } = this.model.columns;
    const isCompute = this.model.isCompute(row);
    const length = numberAt(duration, row);
    const where = [`rank ${this.model.ranks[rank]}`];
    if (iteration && this.model.iterations.length > 1) {
      const at = numberAt(iteration, row);
      where.push(at < 0 ? "initialisation" : `iteration ${at}`);
    }
    const lines = [
      { label: "where", value: where.join(", ") },
      { label: "start", value: timeText(numberAt(start, row) - origin) },
      { label: "duration", value: exactText(length, "ns") },
    ];
    if (!isCompute && bytes) {
      const size = numberAt(bytes, row);
      lines.push({ label: bytes.title, value: exactText(size, "bytes") });
      if (length > 0 && size > 0)
        lines.push({ label: "bytes / duration", value: bandwidthText(size / (length / 1e9)) });
    }
    const of = isCompute ? "compute" : `${textAt(op, row)}${axis ? ` ${textAt(axis, row)}` : ""}`;
    return { title: of, lines };
  }
}

export function timeline(figure: Figure): Drawer | null {
  const columns = timelineColumns(figure);
  return columns ? new Timeline(figure, new TimelineModel(columns, figure.rows)) : null;
}
