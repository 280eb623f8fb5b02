/** Bars: text categories lie, numbered ones (iterations) stand; stacked or side by side. */
import { categoryAxis, frame, measureAxis, named } from "./axes";
import { type Choice, type Drawer, isNarrow, isOn, type Scene, spanOf, type Switch } from "./drawer";
import { wrapped } from "./labels";
import { coloursOf } from "./palette";
import { type Column, columnNamed, type Figure, flag, valueColumns } from "./report_data";
import { paintedSeries } from "./rectangles";
import { folded, largestOf, mostLying, ofParts, type Sums, summed, total, withIntervals } from "./sums";
import { axisText, exactText } from "./units";
import { endsOf, type Interval, intervalText, whisker } from "./whiskers";

const mostStandingWithoutZoom = 40;
const letterWidth = 5.8;
const lineHeight = 13;
const labelLetters = (scene: Scene): number => Math.floor((isNarrow(scene) ? 116 : 210) / letterWidth);

class Bars implements Drawer {
  readonly choices: Choice[] = [];
  readonly switches: Switch[] = [];
  readonly zoom: "none" | "x";
  private readonly lying: boolean;
  private readonly stacked: boolean;
  /** Each category has a value of one series alone. */
  private readonly oneEach: boolean;
  /** An interval is that of a category's whole bar. */
  private readonly whole: boolean;
  private readonly known = new Map<string, Sums>();
  private categories = 0;
  /** Names of series that keep their colour, and how many there are in all. */
  private kept: string[] | undefined;
  private seriesInAll = 0;

  constructor(
    private readonly figure: Figure,
    private readonly category: Column,
    private readonly series: Column | undefined,
    private readonly measures: Column[],
    private readonly parts: Column[],
  ) {
    this.lying = category.dictionary !== undefined;
    this.oneEach = flag(figure, "one_each");
    this.whole = parts.length > 0 || this.oneEach;
    this.stacked = flag(figure, "stacked") || this.whole;
    const options = measures.map((column) => ({ value: column.name, label: column.title }));
    if (options.length > 1)
      this.choices.push({
        id: "measure",
        label: "Show",
        options,
        initial: options[0]!.value,
        form: "buttons",
      });
    const count = this.sums(measures[0]!).series.length;
    if (series && this.stacked && !this.whole && count > 1)
      this.switches.push({ id: "apart", label: "Side by side", initial: false });
    this.zoom =
      !this.lying && this.sums(measures[0]!).categories.length > mostStandingWithoutZoom ? "x" : "none";
  }

  private measure(scene: Scene): Column {
    return this.measures.find((column) => column.name === scene.chosen.get("measure")) ?? this.measures[0]!;
  }

  private sums(measure: Column): Sums {
    let sums = this.known.get(measure.name);
    if (!sums) {
      const ends = endsOf(this.figure, "low", "high", Math.max(0, this.measures.indexOf(measure)));
      sums =
        this.parts.length > 0
          ? ofParts(this.figure, this.category, this.parts, ends)
          : withIntervals(
              this.figure,
              summed(this.figure, this.category, this.series, measure),
              this.category,
              this.series,
              ends,
            );
      this.categories = sums.categories.length;
      this.seriesInAll = sums.series.length;
      if (!sums.intervals) {
        sums = folded(sums, this.kept);
        this.kept ??= sums.series;
      }
      if (this.lying) sums = largestOf(sums);
      this.known.set(measure.name, sums);
    }
    return sums;
  }

  private isStacked(scene: Scene): boolean {
    return this.stacked && !isOn(scene, "apart");
  }

  subject(scene: Scene): string {
    return this.parts.length > 0 ? "" : this.measure(scene).title;
  }

  height(scene: Scene): number {
    if (!this.lying) return isNarrow(scene) ? 260 : 320;
    const sums = this.sums(this.measure(scene));
    const bars = this.isStacked(scene) ? 1 : sums.series.length;
    const lines = Math.max(1, ...sums.categories.map((name) => this.label(scene, name).length));
    return 62 + sums.categories.length * Math.max(26, 8 + 14 * bars, 4 + lineHeight * lines);
  }

  /** A category's name in the lines that it has beside its bar. */
  private label(scene: Scene, name: string): string[] {
    return wrapped(name, labelLetters(scene), flag(this.figure, "long_labels") ? 12 : 4);
  }

  legend(scene: Scene) {
    const { series } = this.sums(this.measure(scene));
    const colours = coloursOf(series, scene.palette);
    return this.series || this.parts.length > 0
      ? series.map((name) => ({ name, colour: colours.get(name)! }))
      : [];
  }

  private largest(sums: Sums, scene: Scene): number {
    let largest = 0;
    for (let at = 0; at < sums.categories.length; at++) {
      const shown = sums.values.filter((_, index) => !scene.hidden.has(sums.series[index]!));
      const value = this.isStacked(scene)
        ? total(sums, at, scene.hidden)
        : Math.max(0, ...shown.map((values) => values[at]! || 0));
      largest = Math.max(largest, value);
      for (const [index, each] of this.intervalsShown(sums, scene).entries())
        if (this.whole || !scene.hidden.has(sums.series[index]!))
          largest = Math.max(largest, each[at]?.high ?? 0);
    }
    return largest;
  }

  /** By series, or one of whole bars: of parts only where all are shown. */
  private intervalsShown(sums: Sums, scene: Scene): (Interval | undefined)[][] {
    const { intervals } = sums;
    if (!intervals || (this.stacked && !this.whole)) return [];
    if (this.oneEach) {
      const shown = intervals.filter((_, index) => !scene.hidden.has(sums.series[index]!));
      return [sums.categories.map((_, at) => shown.map((each) => each[at]).find(Boolean))];
    }
    return this.parts.length > 0 && scene.hidden.size > 0 ? [] : intervals;
  }

  note(): string | null {
    const said: string[] = [];
    if (this.lying && this.categories > mostLying)
      said.push(`The ${mostLying} largest of ${this.categories}; the table has the others.`);
    const { kept, seriesInAll } = this;
    if (kept && seriesInAll > kept.length)
      said.push(
        `The smallest ${seriesInAll - kept.length + 1} of ${seriesInAll} parts are one; the table has each.`,
      );
    return said.length > 0 ? said.join(" ") : null;
  }

  option(scene: Scene) {
    const measure = this.measure(scene);
    const sums = this.sums(measure);
    const [first, last] = spanOf(scene.x, 0, sums.categories.length - 1);
    const categories = categoryAxis(
      scene,
      sums.categories,
      this.lying
        ? {
            inverse: true,
            axisLabel: {
              color: scene.palette.ink,
              lineHeight,
              interval: 0,
              hideOverlap: false,
              formatter: (name: string) => this.label(scene, name).join("\n"),
            },
          }
        : {
            name: this.category.title,
            nameLocation: "middle",
            min: Math.round(first),
            max: Math.round(last),
          },
    );
    const measured = {
      ...measureAxis(scene, measure.unit, this.largest(sums, scene), this.lying),
      ...(this.parts.length > 0 ? {} : named(measure.title, this.lying ? 24 : 40)),
    };
    const right = this.lying ? { right: isNarrow(scene) ? 64 : 84 } : {};
    const grid = { ...right, outerBoundsContain: "all" };
    return {
      ...frame(scene, grid),
      xAxis: this.lying ? measured : categories,
      yAxis: this.lying ? categories : measured,
      series: this.bars(scene, sums, measure.unit),
    };
  }

  private bars(scene: Scene, sums: Sums, unit: string) {
    const colours = coloursOf(sums.series, scene.palette);
    const intervals = this.intervalsShown(sums, scene);
    const apart = !this.isStacked(scene);
    const bars: Record<string, unknown>[] = sums.series.flatMap((name, index) => {
      if (scene.hidden.has(name)) return [];
      const stack = apart ? (intervals[index] ? { stack: name } : {}) : { stack: "all" };
      const bar = {
        type: "bar",
        name,
        ...stack,
        data: Array.from(sums.values[index]!, (value) => (Number.isNaN(value) ? "-" : value)),
        itemStyle: { color: colours.get(name) },
        ...this.barShape(),
        silent: true,
        ...(this.lying && apart && !intervals[index] ? { label: this.endLabel(scene, unit) } : {}),
      };
      return this.lying && apart && intervals[index]
        ? [bar, this.ends(scene, sums.values[index]!, intervals[index], name, unit)]
        : [bar];
    });
    if (this.lying && !apart) {
      const sum = Float64Array.from(sums.categories, (_, at) => total(sums, at, scene.hidden));
      bars.push(this.ends(scene, sum, intervals[0] ?? [], "all", unit));
    }
    if (intervals.length > 0 && (!this.whole || !apart)) bars.push(this.whiskers(scene, sums, intervals));
    return bars;
  }

  private barShape() {
    return { barMaxWidth: this.lying ? 18 : 40, barGap: "10%" };
  }

  private whiskers(scene: Scene, sums: Sums, intervals: (Interval | undefined)[][]) {
    const shown = intervals.filter((_, index) => this.whole || !scene.hidden.has(sums.series[index]!));
    return paintedSeries((window) => {
      const rectangles: number[] = [];
      const offsets = window.barOffsets(shown.length, this.barShape());
      for (const [index, each] of shown.entries()) {
        for (const [at, interval] of each.entries()) {
          if (!interval) continue;
          const [from, to] = [interval.low, interval.high].map((end) => {
            const [x, y] = this.lying ? window.pixel(end, at) : window.pixel(at, end);
            const away = offsets[index] ?? 0;
            return (this.lying ? [x, y + away] : [x + away, y]) as [number, number];
          });
          rectangles.push(...whisker(from!, to!));
        }
      }
      return [{ colour: scene.palette.ink, rectangles }];
    });
  }

  private endLabel(scene: Scene, unit: string) {
    const formatter = (item: { value: unknown }) =>
      typeof item.value === "number" ? axisText(item.value, unit) : "";
    return { show: true, position: "right", color: scene.palette.muted, fontSize: 11, formatter };
  }

  /** Bars that nobody sees, from the ends of the others to those of their intervals, which carry the numbers. */
  private ends(
    scene: Scene,
    values: Float64Array,
    intervals: (Interval | undefined)[],
    stack: string,
    unit: string,
  ) {
    const all = Array.from(values, (value) => (Number.isNaN(value) ? "" : axisText(value, unit)));
    const formatter = (item: { dataIndex: number }) => all[item.dataIndex] ?? "";
    return {
      type: "bar",
      stack,
      data: Array.from(values, (value, at) => Math.max(0, (intervals[at]?.high ?? value) - value) || 0),
      itemStyle: { color: "transparent" },
      ...this.barShape(),
      silent: true,
      label: { show: true, position: "right", color: scene.palette.muted, fontSize: 11, formatter },
    };
  }

  tip(scene: Scene, [x, y]: [number, number]) {
    const measure = this.measure(scene);
    const sums = this.sums(measure);
    const at = Math.round(this.lying ? y : x);
    const category = sums.categories[at];
    if (category === undefined) return null;
    const colours = coloursOf(sums.series, scene.palette);
    const intervals = this.intervalsShown(sums, scene);
    const lines = sums.series.flatMap((name, index) => {
      const value = sums.values[index]![at]!;
      if (scene.hidden.has(name) || Number.isNaN(value)) return [];
      const own = { label: name, value: exactText(value, measure.unit), colour: colours.get(name)! };
      const interval = this.whole ? undefined : intervals[index]?.[at];
      return interval ? [own, intervalLine(interval, measure.unit)] : [own];
    });
    if (lines.length > 1 && this.isStacked(scene)) {
      lines.push({
        label: "total",
        value: exactText(total(sums, at, scene.hidden), measure.unit),
        colour: "",
      });
    }
    const interval = this.whole ? intervals[0]?.[at] : undefined;
    if (interval) lines.push(intervalLine(interval, measure.unit));
    return { title: this.lying ? category : `${this.category.title} ${category}`, lines };
  }
}

const intervalLine = (interval: Interval, unit: string) => ({
  label: "90 % interval",
  value: intervalText(interval, unit),
  colour: "",
});

export function bars(figure: Figure): Drawer | null {
  const category = columnNamed(figure, figure.options["category"]);
  const parts = figure.options["parts"] ? valueColumns(figure, "parts", "") : [];
  const measures = parts.length > 0 ? parts.slice(0, 1) : valueColumns(figure, "toggles", "value");
  if (!category || measures.length === 0) return null;
  return new Bars(figure, category, columnNamed(figure, figure.options["series"]), measures, parts);
}
