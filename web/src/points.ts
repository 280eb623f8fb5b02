/** Lines and scattered points: numbers against numbers, by series. */
import { frame, logAxis, measureAxis, named, valueAxis } from "./axes";
import {
  type Choice,
  type Drawer,
  isNarrow,
  type Ramp,
  type Scene,
  spanOf,
  type Switch,
  type TipLine,
} from "./drawer";
import { coloursOf, rampColour } from "./palette";
import { type Column, columnNamed, type Figure, flag, numberAt, textAt, valueColumns } from "./report_data";
import { paintedSeries } from "./rectangles";
import { exactText } from "./units";
import { type Ends, endsOf, intervalAt, intervalText, whisker } from "./whiskers";

const mostColours = 8;
const mostSymbols = 4000;

interface Series {
  name: string;
  rows: number[];
}

class Points implements Drawer {
  readonly choices: Choice[] = [];
  readonly switches: Switch[] = [];
  readonly zoom: "none" | "x";
  private readonly series: Series[] = [];
  /** Many numbered series, as ranks are: along the ramp, since nobody tells twenty colours apart. */
  private readonly isNumbered: boolean;
  readonly ramp?: (scene: Scene) => Ramp;

  constructor(
    private readonly figure: Figure,
    private readonly x: Column,
    private readonly measures: Column[],
    private readonly by: Column | undefined,
    private readonly joined: boolean,
  ) {
    const options = measures.map((column) => ({ value: column.name, label: column.title }));
    if (options.length > 1)
      this.choices.push({
        id: "measure",
        label: "Show",
        options,
        initial: options[0]!.value,
        form: "buttons",
      });
    const known = new Map<string, Series>();
    for (let row = 0; row < figure.rows; row++) {
      const name = by ? `${by.dictionary ? "" : `${by.title} `}${textAt(by, row)}` : "";
      let series = known.get(name);
      if (!series) {
        series = { name, rows: [] };
        known.set(name, series);
        this.series.push(series);
      }
      series.rows.push(row);
    }
    if (joined) for (const { rows } of this.series) rows.sort((a, b) => numberAt(x, a) - numberAt(x, b));
    this.isNumbered = by !== undefined && !by.dictionary && this.series.length > mostColours;
    if (this.isNumbered) {
      const [least, most] = [this.series[0]!.name, this.series[this.series.length - 1]!.name];
      this.ramp = (scene) => ({ least, most, colours: scene.palette.ramp });
    }
    this.zoom =
      joined && !flag(figure, "log_x") && Math.max(...this.series.map(({ rows }) => rows.length)) > 60
        ? "x"
        : "none";
  }

  private measure(scene: Scene): Column {
    return this.measures.find((column) => column.name === scene.chosen.get("measure")) ?? this.measures[0]!;
  }

  subject(scene: Scene): string {
    return this.joined ? this.measure(scene).title : "";
  }

  height(scene: Scene): number {
    return isNarrow(scene) ? 280 : 340;
  }

  private colours(scene: Scene): Map<string, string> {
    const names = this.series.map(({ name }) => name);
    if (!this.isNumbered) return coloursOf(names, scene.palette);
    const last = Math.max(1, names.length - 1);
    return new Map(names.map((name, at) => [name, rampColour(scene.palette, at / last)]));
  }

  legend(scene: Scene) {
    if (!this.by || this.isNumbered) return [];
    const colours = this.colours(scene);
    return this.series.map(({ name }) => ({ name, colour: colours.get(name)! }));
  }

  /** The ends of the intervals of a column, where the figure has them. */
  private ends(column: Column): Ends | undefined {
    if (column === this.x) return endsOf(this.figure, "x_low", "x_high");
    return endsOf(this.figure, "low", "high", this.measures.indexOf(column));
  }

  private range(column: Column, hidden: Set<string>): [number, number] {
    const ends = this.ends(column);
    let least = Number.POSITIVE_INFINITY;
    let most = Number.NEGATIVE_INFINITY;
    for (const { name, rows } of this.series) {
      if (hidden.has(name)) continue;
      for (const row of rows) {
        const value = numberAt(column, row);
        if (Number.isNaN(value)) continue;
        const interval = intervalAt(ends, row);
        least = Math.min(least, interval?.low ?? value);
        most = Math.max(most, interval?.high ?? value);
      }
    }
    return least <= most ? [least, most] : [0, 1];
  }

  private axisOf(scene: Scene, column: Column, log: boolean): Record<string, unknown> {
    const [least, most] = this.range(column, scene.hidden);
    const base = Number(this.figure.options["log_base"] ?? (column.unit === "bytes" ? 16 : 10));
    if (log && least > 0) return logAxis(scene, column.unit, least, most, base);
    return measureAxis(scene, column.unit, most);
  }

  private xAxis(scene: Scene): Record<string, unknown> {
    const title = named(this.x.title, 26);
    if (!this.joined || flag(this.figure, "log_x")) {
      return { ...this.axisOf(scene, this.x, flag(this.figure, "log_x")), ...title };
    }
    const [least, most] = this.range(this.x, new Set());
    const [from, to] = spanOf(scene.x, least, most === least ? least + 1 : most);
    return valueAxis(scene, this.x.unit, {
      min: from,
      max: to,
      minInterval: this.x.unit === "" ? 1 : 0,
      splitNumber: isNarrow(scene) ? 4 : 8,
      splitLine: { show: false },
      ...title,
    });
  }

  option(scene: Scene) {
    const measure = this.measure(scene);
    const colours = this.colours(scene);
    const most = Math.max(...this.series.map(({ rows }) => rows.length));
    const series: Record<string, unknown>[] = this.series
      .filter(({ name }) => !scene.hidden.has(name))
      .map(({ name, rows }) => ({
        type: this.joined ? "line" : "scatter",
        name,
        data: rows.map((row) => [numberAt(this.x, row), numberAt(measure, row)]),
        itemStyle: { color: this.by ? colours.get(name) : scene.palette.series[0] },
        lineStyle: { width: 1.75 },
        ...(this.joined
          ? {
              showSymbol: most <= 60 && this.figure.rows <= mostSymbols,
              symbol: "circle",
              symbolSize: 5,
              ...(most > 2000 ? { sampling: "minmax" } : {}),
            }
          : {
              symbolSize: most > 400 ? 5 : 8,
              large: this.figure.rows > mostSymbols, // as one path
              largeThreshold: 1,
              itemStyle: { color: colours.get(name), opacity: 0.75 },
            }),
        silent: true,
        clip: true,
      }));
    const whiskers = this.whiskers(scene, measure);
    if (whiskers) series.push(whiskers);
    if (flag(this.figure, "diagonal")) series.push(this.diagonal(scene, measure));
    return {
      ...frame(scene, { outerBoundsContain: "all" }),
      xAxis: this.xAxis(scene),
      yAxis: {
        ...this.axisOf(scene, measure, flag(this.figure, "log_y")),
        ...(this.joined
          ? named(measure.title, 40)
          : { name: measure.title, nameLocation: "end", nameGap: 10 }),
      },
      series,
    };
  }

  private whiskers(scene: Scene, measure: Column) {
    const [across, along] = [this.ends(this.x), this.ends(measure)];
    if (!across && !along) return null;
    const colours = this.colours(scene);
    const shown = this.series.filter(({ name }) => !scene.hidden.has(name));
    return paintedSeries((window) =>
      shown.map(({ name, rows }) => {
        const rectangles: number[] = [];
        for (const row of rows) {
          const [x, y] = [numberAt(this.x, row), numberAt(measure, row)];
          if (Number.isNaN(x) || Number.isNaN(y)) continue;
          const [lying, standing] = [intervalAt(across, row), intervalAt(along, row)];
          if (lying) rectangles.push(...whisker(window.pixel(lying.low, y), window.pixel(lying.high, y)));
          if (standing)
            rectangles.push(...whisker(window.pixel(x, standing.low), window.pixel(x, standing.high)));
        }
        return { colour: (this.by ? colours.get(name) : undefined) ?? scene.palette.series[0]!, rectangles };
      }),
    );
  }

  /** Where both axes say the same. */
  private diagonal(scene: Scene, measure: Column) {
    const [, mostX] = this.range(this.x, scene.hidden);
    const [leastX] = this.range(this.x, scene.hidden);
    const [leastY, mostY] = this.range(measure, scene.hidden);
    const from = flag(this.figure, "log_x") ? Math.max(leastX, leastY) : 0;
    const to = Math.min(mostX, mostY);
    return {
      type: "line",
      data: [
        [from, from],
        [to, to],
      ],
      symbol: "none",
      lineStyle: { color: scene.palette.muted, type: "dashed", width: 1 },
      silent: true,
    };
  }

  tip(scene: Scene, [x, y]: [number, number], [perX, perY]: [number, number]) {
    return this.joined ? this.tipAt(scene, x) : this.tipNear(scene, x, y, perX, perY);
  }

  /** All series at the x nearest to the pointer. */
  private tipAt(scene: Scene, x: number) {
    let nearest = Number.NaN;
    for (const { rows } of this.series) {
      for (const row of rows) {
        const at = numberAt(this.x, row);
        if (!(Math.abs(at - x) >= Math.abs(nearest - x))) nearest = at;
      }
    }
    if (Number.isNaN(nearest)) return null;
    const measure = this.measure(scene);
    const colours = this.colours(scene);
    const lines: TipLine[] = [];
    for (const { name, rows } of this.series) {
      const row = rows.find((each) => numberAt(this.x, each) === nearest);
      if (row === undefined || scene.hidden.has(name) || lines.length >= 20) continue;
      const value = exactText(numberAt(measure, row), measure.unit);
      lines.push(
        this.by ? { label: name, value, colour: colours.get(name)! } : { label: measure.title, value },
        ...this.intervalLines(measure, row),
      );
    }
    return { title: `${this.x.title} ${exactText(nearest, this.x.unit)}`, lines };
  }

  private intervalLines(column: Column, row: number): TipLine[] {
    const interval = intervalAt(this.ends(column), row);
    return interval ? [{ label: "90 % interval", value: intervalText(interval, column.unit) }] : [];
  }

  private tipNear(scene: Scene, x: number, y: number, perX: number, perY: number) {
    const measure = this.measure(scene);
    let best = -1;
    let bestAway = 12;
    for (const { name, rows } of this.series) {
      if (scene.hidden.has(name)) continue;
      for (const row of rows) {
        const away = Math.hypot((numberAt(this.x, row) - x) / perX, (numberAt(measure, row) - y) / perY);
        if (away < bestAway) [best, bestAway] = [row, away];
      }
    }
    if (best < 0) return null;
    const label = columnNamed(this.figure, this.figure.options["label"]) ?? this.by;
    const lines = [this.x, measure].flatMap((column) => [
      { label: column.title, value: exactText(numberAt(column, best), column.unit) },
      ...this.intervalLines(column, best),
    ]);
    return { title: label ? textAt(label, best) : this.figure.title, lines };
  }
}

function points(figure: Figure, joined: boolean): Drawer | null {
  const x = columnNamed(figure, figure.options["x"]);
  const measures =
    figure.options["toggles"] || figure.options["value"]
      ? valueColumns(figure, "toggles", "value")
      : valueColumns(figure, "y", "y");
  if (!x || measures.length === 0) return null;
  return new Points(figure, x, measures, columnNamed(figure, figure.options["series"]), joined);
}

export const lines = (figure: Figure): Drawer | null => points(figure, true);
export const scatter = (figure: Figure): Drawer | null => points(figure, false);
