/** Who sends how much to whom: rows are sources, columns destinations. */
import { frame, valueAxis } from "./axes";
import { type Choice, type Drawer, type Scene, type Span, spanOf, type Switch } from "./drawer";
import { rampColour } from "./palette";
import { type Layer, paintedSeries, type Window } from "./rectangles";
import { type Column, columnNamed, type Figure, numberAt, valueColumns } from "./report_data";
import { axisText, exactText } from "./units";

const levels = 32;
const largestCell = 72;
/** Room for the labels. */
const edge = { left: 60, top: 44 };

class Matrix implements Drawer {
  readonly choices: Choice[] = [];
  readonly switches: Switch[] = [];
  readonly zoom: "none" | "xy";
  private readonly block: number;
  private readonly size: number;
  /** Row of the figure by cell; made when somebody asks. */
  private rowOf: Map<number, number> | undefined;

  constructor(
    private readonly figure: Figure,
    private readonly source: Column,
    private readonly destination: Column,
    private readonly measures: Column[],
  ) {
    const block = figure.options["block"];
    this.block = typeof block === "number" && block > 0 ? block : 1;
    const ranks = figure.options["ranks"];
    let last = typeof ranks === "number" ? ranks - 1 : 0;
    for (let row = 0; row < figure.rows; row++) {
      last = Math.max(last, numberAt(source, row), numberAt(destination, row));
    }
    this.size = Math.floor(last / this.block) + 1;
    const options = measures.map((column) => ({ value: column.name, label: column.title }));
    if (options.length > 1)
      this.choices.push({
        id: "measure",
        label: "Show",
        options,
        initial: options[0]!.value,
        form: "buttons",
      });
    const [least, most] = this.range(measures[0]!);
    if (most > least) this.switches.push({ id: "log", label: "Log colours", initial: most > 50 * least });
    this.zoom = this.size > 16 ? "xy" : "none";
  }

  private at(column: Column, row: number): number {
    return Math.floor(numberAt(column, row) / this.block);
  }

  private rowAt(source: number, destination: number): number | undefined {
    const cell = (from: number, to: number) => from * this.size + to;
    if (!this.rowOf) {
      this.rowOf = new Map();
      for (let row = 0; row < this.figure.rows; row++)
        this.rowOf.set(cell(this.at(this.source, row), this.at(this.destination, row)), row);
    }
    return this.rowOf.get(cell(source, destination));
  }

  private measure(scene: Scene): Column {
    return this.measures.find((column) => column.name === scene.chosen.get("measure")) ?? this.measures[0]!;
  }

  /** Least and most above nothing. */
  private range(measure: Column): [number, number] {
    let least = Number.POSITIVE_INFINITY;
    let most = 0;
    for (const value of measure.values) {
      if (value > 0) least = Math.min(least, value);
      most = Math.max(most, value);
    }
    return [Math.min(least, most), most];
  }

  subject(scene: Scene): string {
    return this.measure(scene).title;
  }

  height(scene: Scene): number {
    return this.side(scene) + edge.top + 6;
  }

  private side(scene: Scene): number {
    return Math.min(scene.width - edge.left - 20, 540, Math.max(2, this.size) * largestCell);
  }

  legend() {
    return [];
  }

  ramp(scene: Scene) {
    const measure = this.measure(scene);
    const [least, most] = this.range(measure);
    const from = scene.chosen.get("log") === "on" ? least : 0;
    return {
      least: axisText(from, measure.unit),
      most: axisText(most, measure.unit),
      colours: scene.palette.ramp,
    };
  }

  private share(scene: Scene, value: number, [least, most]: [number, number]): number {
    if (most <= least) return 0.6;
    if (scene.chosen.get("log") !== "on") return value / most;
    return Math.log(value / least) / Math.log(most / least);
  }

  option(scene: Scene) {
    const side = this.side(scene);
    return {
      ...frame(scene, {
        ...edge,
        width: side,
        height: side,
        right: "auto",
        bottom: 0,
        outerBoundsMode: "none",
      }),
      xAxis: { ...this.axis(scene, scene.x, this.destination.title), position: "top" },
      yAxis: { ...this.axis(scene, scene.y, this.source.title), inverse: true, nameGap: 36 },
      series: [paintedSeries((window) => this.paint(scene, window))],
    };
  }

  private axis(scene: Scene, span: Span, name: string) {
    const [from, to] = spanOf(span, -0.5, this.size - 0.5);
    const step = Math.max(1, 2 ** Math.ceil(Math.log2((to - from) / 12)));
    const marks: number[] = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) marks.push(at);
    return valueAxis(scene, "", {
      name,
      nameLocation: "middle",
      nameGap: 24,
      min: from,
      max: to,
      splitLine: { show: false },
      axisLine: { show: false },
      axisTick: { show: false, customValues: marks },
      axisLabel: { customValues: marks, formatter: (cell: number) => String(cell * this.block) },
    });
  }

  private paint(scene: Scene, window: Window): Layer[] {
    const measure = this.measure(scene);
    const range = this.range(measure);
    const [left, top] = window.pixel(-0.5, -0.5);
    const [right, bottom] = window.pixel(this.size - 0.5, this.size - 0.5);
    const width = (right - left) / this.size;
    const height = (bottom - top) / this.size;
    const gap = Math.min(width, height) > 8 ? 1 : 0;
    const layers: Layer[] = Array.from({ length: levels }, (_, level) => ({
      colour: rampColour(scene.palette, level / (levels - 1)),
      rectangles: [],
    }));
    for (let row = 0; row < this.figure.rows; row++) {
      const value = numberAt(measure, row);
      const x = left + this.at(this.destination, row) * width;
      const y = top + this.at(this.source, row) * height;
      const outside =
        x + width < window.left ||
        y + height < window.top ||
        x > window.left + window.width ||
        y > window.top + window.height;
      if (!(value > 0) || outside) continue;
      const share = Math.min(1, Math.max(0, this.share(scene, value, range)));
      layers[Math.round(share * (levels - 1))]!.rectangles.push(
        x,
        y,
        Math.max(1, width - gap),
        Math.max(1, height - gap),
      );
    }
    const ground = { colour: scene.palette.raised, rectangles: [left, top, right - left, bottom - top] };
    return [ground, ...layers];
  }

  tip(scene: Scene, [x, y]: [number, number]) {
    const [to, from] = [Math.round(x), Math.round(y)];
    if (to < 0 || from < 0 || to >= this.size || from >= this.size) return null;
    const measure = this.measure(scene);
    const row = this.rowAt(from, to);
    const value = row === undefined ? 0 : numberAt(measure, row);
    let all = 0;
    for (const each of measure.values) all += each;
    const lines = [{ label: measure.title, value: exactText(value, measure.unit) }];
    if (value > 0) lines.push({ label: "share of all", value: axisText(value / all, "share") });
    return { title: `${this.named(from)} to ${this.named(to)}`, lines };
  }

  private named(cell: number): string {
    const first = cell * this.block;
    return this.block === 1 ? `rank ${first}` : `ranks ${first} to ${first + this.block - 1}`;
  }
}

export function matrix(figure: Figure): Drawer | null {
  const source = columnNamed(figure, figure.options["source"] ?? "source");
  const destination = columnNamed(figure, figure.options["destination"] ?? "destination");
  const measures = valueColumns(figure, "toggles", "value");
  if (!source || !destination || measures.length === 0) return null;
  return new Matrix(figure, source, destination, measures);
}
