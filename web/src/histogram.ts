/** Classes of powers of two side by side, those in between that are empty too: a logarithmic axis of sizes. */
import { categoryAxis, frame, logAxis, measureAxis, named } from "./axes";
import { type Choice, type Drawer, isNarrow, isOn, type Scene, type Switch } from "./drawer";
import { coloursOf } from "./palette";
import { type Column, columnNamed, type Figure, numberAt, valueColumns } from "./report_data";
import { summed } from "./sums";
import { axisText, bytesText, exactText } from "./units";

/** 0: nothing; n: from 2^(n-1) bytes on. */
const classOf = (lower: number): number => (lower < 1 ? 0 : Math.round(Math.log2(lower)) + 1);
const lowerOf = (index: number): number => (index === 0 ? 0 : 2 ** (index - 1));

class Histogram implements Drawer {
  readonly choices: Choice[] = [];
  readonly switches: Switch[] = [{ id: "cumulative", label: "Cumulative", initial: true }];
  readonly zoom = "none";
  /** The classes of the axis, ascending. */
  private readonly classes: number[];

  constructor(
    private readonly figure: Figure,
    private readonly lower: Column,
    private readonly series: Column | undefined,
    private readonly measures: Column[],
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
    if (!series) this.switches.push({ id: "log", label: "Log scale", initial: false });
    const present = Array.from({ length: figure.rows }, (_, row) => classOf(numberAt(lower, row)));
    const sizes = present.filter((index) => index > 0);
    const least = sizes.reduce((least, index) => Math.min(least, index), 64);
    const most = sizes.reduce((most, index) => Math.max(most, index), 0);
    this.classes = present.includes(0) ? [0] : [];
    for (let index = least; index <= most; index++) this.classes.push(index);
  }

  private measure(scene: Scene): Column {
    return this.measures.find((column) => column.name === scene.chosen.get("measure")) ?? this.measures[0]!;
  }

  /** Values by series name, then class of the axis. */
  private values(scene: Scene): Map<string, Float64Array> {
    const sums = summed(this.figure, this.lower, this.series, this.measure(scene));
    const place = sums.categories.map((lower) => this.classes.indexOf(classOf(Number(lower))));
    const all = new Map<string, Float64Array>();
    for (const [index, name] of sums.series.entries()) {
      const values = new Float64Array(this.classes.length);
      sums.values[index]!.forEach((value, at) => {
        values[place[at]!] = values[place[at]!]! + (value || 0);
      });
      if (!scene.hidden.has(name)) all.set(name, values);
    }
    return all;
  }

  subject(scene: Scene): string {
    const { title } = this.measure(scene);
    return isOn(scene, "cumulative") ? `${title}; dashed: of this size or less` : title;
  }

  height(scene: Scene): number {
    return isNarrow(scene) ? 280 : 340;
  }

  private names(scene: Scene): string[] {
    return summed(this.figure, this.lower, this.series, this.measure(scene)).series;
  }

  legend(scene: Scene) {
    if (!this.series) return [];
    const names = this.names(scene);
    const colours = coloursOf(names, scene.palette);
    return names.map((name) => ({ name, colour: colours.get(name)! }));
  }

  option(scene: Scene) {
    const values = this.values(scene);
    const totals = this.totals(values);
    const { unit, title } = this.measure(scene);
    const largest = Math.max(...totals, 0);
    const least = Math.min(...totals.filter((value) => value > 0), largest);
    const log = isOn(scene, "log") && largest > 0;
    const colours = coloursOf(this.names(scene), scene.palette);
    const series: Record<string, unknown>[] = [...values].map(([name, numbers]) => ({
      type: "bar",
      name,
      stack: "all",
      barCategoryGap: "8%",
      barMaxWidth: 64,
      data: Array.from(numbers, (value) => (log && value === 0 ? "-" : value)),
      itemStyle: { color: this.series ? colours.get(name) : scene.palette.series[0] },
      silent: true,
    }));
    const counted = log ? logAxis(scene, unit, least, largest) : measureAxis(scene, unit, largest);
    const yAxis = [{ ...counted, ...named(title, 40) }];
    if (isOn(scene, "cumulative")) {
      const share = {
        ...measureAxis(scene, "share", 1),
        splitLine: { show: false },
        ...named("this size or less", 40),
      };
      yAxis.push(share);
      series.push(this.cumulative(scene, totals));
    }
    const names = this.classes.map((index) => (index === 0 ? "0" : bytesText(lowerOf(index))));
    const xAxis = categoryAxis(scene, names, named("size of a message", 26));
    return { ...frame(scene, { right: 8, outerBoundsContain: "all" }), xAxis, yAxis, series };
  }

  private totals(values: Map<string, Float64Array>): number[] {
    return this.classes.map((_, at) => [...values.values()].reduce((sum, numbers) => sum + numbers[at]!, 0));
  }

  private running(totals: number[]): number[] {
    const all = totals.reduce((sum, value) => sum + value, 0);
    let below = 0;
    return totals.map((value) => {
      below += value;
      return all > 0 ? below / all : 0;
    });
  }

  private cumulative(scene: Scene, totals: number[]) {
    return {
      type: "line",
      yAxisIndex: 1,
      data: this.running(totals),
      step: "middle",
      symbol: "none",
      lineStyle: { color: scene.palette.ink, width: 1.25, type: "dashed" },
      silent: true,
    };
  }

  tip(scene: Scene, [x]: [number, number]) {
    const at = Math.round(x);
    const index = this.classes[at];
    if (index === undefined) return null;
    const { unit, title } = this.measure(scene);
    const values = this.values(scene);
    const totals = this.totals(values);
    const colours = coloursOf(this.names(scene), scene.palette);
    const lines: { label: string; value: string; colour?: string }[] = [];
    for (const [name, numbers] of values) {
      if (!this.series || numbers[at]! > 0) {
        const colour = this.series ? { colour: colours.get(name)! } : {};
        lines.push({ label: this.series ? name : title, value: exactText(numbers[at]!, unit), ...colour });
      }
    }
    const all = totals.reduce((sum, value) => sum + value, 0);
    if (all > 0) {
      lines.push({ label: `share of ${title}`, value: axisText(totals[at]! / all, "share") });
      lines.push({ label: "this size or less", value: axisText(this.running(totals)[at]!, "share") });
    }
    const range = `${bytesText(lowerOf(index))} to under ${bytesText(lowerOf(index + 1))}`;
    return { title: index === 0 ? "no bytes" : range, lines };
  }
}

export function histogram(figure: Figure): Drawer | null {
  const lower = columnNamed(figure, figure.options["lower"]);
  const measures = valueColumns(figure, "toggles", "value");
  if (!lower || measures.length === 0) return null;
  return new Histogram(figure, lower, columnNamed(figure, figure.options["series"]), measures);
}
