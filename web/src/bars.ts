/** Bars: text categories lie, numbered ones (iterations) stand; stacked or side by side. */
import { categoryAxis, frame, measureAxis } from "./axes";
import { type Choice, type Drawer, isNarrow, isOn, type Scene, spanOf, type Switch } from "./drawer";
import { coloursOf } from "./palette";
import { type Column, columnNamed, type Figure, flag, numberAt, textAt, valueColumns } from "./report_data";
import { axisText, exactText } from "./units";

const mostLying = 40;
const mostStandingWithoutZoom = 40;

/** Values added up by category and series. */
interface Sums {
  categories: string[];
  series: string[];
  /** [series][category]; NaN where there is nothing. */
  values: Float64Array[];
}

function indexOfNames(column: Column | undefined, rows: number, lone: string): [string[], Uint32Array] {
  const names: string[] = [];
  const known = new Map<string, number>();
  const at = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const name = column ? textAt(column, row) : lone;
    let index = known.get(name);
    if (index === undefined) {
      index = names.push(name) - 1;
      known.set(name, index);
    }
    at[row] = index;
  }
  return [names, at];
}

/** The names of the series: those of a column, or the measure's own title. */
export function summed(figure: Figure, category: Column, series: Column | undefined, value: Column): Sums {
  const [categories, categoryAt] = indexOfNames(category, figure.rows, "");
  const [names, seriesAt] = indexOfNames(series, figure.rows, value.title);
  const values = names.map(() => new Float64Array(categories.length).fill(Number.NaN));
  for (let row = 0; row < figure.rows; row++) {
    const number = numberAt(value, row);
    const sums = values[seriesAt[row]!]!;
    const at = categoryAt[row]!;
    if (!Number.isNaN(number)) sums[at] = Number.isNaN(sums[at]!) ? number : sums[at]! + number;
  }
  return { categories, series: names, values };
}

function total(sums: Sums, at: number, hidden: Set<string>): number {
  let all = 0;
  for (const [index, name] of sums.series.entries()) {
    const value = sums.values[index]![at]!;
    if (!hidden.has(name) && !Number.isNaN(value)) all += value;
  }
  return all;
}

/** Those of the largest totals, in the order they had. */
function largestOf(sums: Sums): Sums {
  if (sums.categories.length <= mostLying) return sums;
  const order = sums.categories.map((_, at) => at);
  const totals = order.map((at) => total(sums, at, new Set()));
  order.sort((a, b) => totals[b]! - totals[a]!);
  const kept = order.slice(0, mostLying).sort((a, b) => a - b);
  return {
    categories: kept.map((at) => sums.categories[at]!),
    series: sums.series,
    values: sums.values.map((values) => Float64Array.from(kept, (at) => values[at]!)),
  };
}

class Bars implements Drawer {
  readonly choices: Choice[] = [];
  readonly switches: Switch[] = [];
  readonly zoom: "none" | "x";
  private readonly lying: boolean;
  private readonly stacked: boolean;
  private readonly known = new Map<string, Sums>();
  private categories = 0;

  constructor(
    private readonly figure: Figure,
    private readonly category: Column,
    private readonly series: Column | undefined,
    private readonly measures: Column[],
  ) {
    this.lying = category.dictionary !== undefined;
    this.stacked = flag(figure, "stacked");
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
    if (series && this.stacked && count > 1)
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
      sums = summed(this.figure, this.category, this.series, measure);
      this.categories = sums.categories.length;
      if (this.lying) sums = largestOf(sums);
      this.known.set(measure.name, sums);
    }
    return sums;
  }

  private isStacked(scene: Scene): boolean {
    return this.stacked && !isOn(scene, "apart");
  }

  height(scene: Scene): number {
    if (!this.lying) return isNarrow(scene) ? 260 : 320;
    const sums = this.sums(this.measure(scene));
    const bars = this.isStacked(scene) ? 1 : sums.series.length;
    return 44 + sums.categories.length * Math.max(26, 8 + 14 * bars);
  }

  legend(scene: Scene) {
    const { series } = this.sums(this.measure(scene));
    const colours = coloursOf(series, scene.palette);
    return this.series ? series.map((name) => ({ name, colour: colours.get(name)! })) : [];
  }

  private largest(sums: Sums, scene: Scene): number {
    let largest = 0;
    for (let at = 0; at < sums.categories.length; at++) {
      const shown = sums.values.filter((_, index) => !scene.hidden.has(sums.series[index]!));
      const value = this.isStacked(scene)
        ? total(sums, at, scene.hidden)
        : Math.max(0, ...shown.map((values) => values[at]! || 0));
      largest = Math.max(largest, value);
    }
    return largest;
  }

  note(): string | null {
    if (!this.lying || this.categories <= mostLying) return null;
    return `The ${mostLying} largest of ${this.categories}; the table has the others.`;
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
            axisLabel: { width: isNarrow(scene) ? 116 : 210, overflow: "truncate", color: scene.palette.ink },
          }
        : {
            name: this.category.title,
            nameLocation: "middle",
            min: Math.round(first),
            max: Math.round(last),
          },
    );
    const measured = measureAxis(scene, measure.unit, this.largest(sums, scene), this.lying);
    const grid = this.lying ? { right: isNarrow(scene) ? 64 : 84 } : { outerBoundsContain: "all" };
    return {
      ...frame(scene, grid),
      xAxis: this.lying ? measured : categories,
      yAxis: this.lying ? categories : measured,
      series: this.bars(scene, sums, measure.unit),
    };
  }

  private bars(scene: Scene, sums: Sums, unit: string) {
    const colours = coloursOf(sums.series, scene.palette);
    const stack = this.isStacked(scene) ? { stack: "all" } : {};
    const bars: Record<string, unknown>[] = sums.series.flatMap((name, index) =>
      scene.hidden.has(name)
        ? []
        : [
            {
              type: "bar",
              name,
              ...stack,
              data: Array.from(sums.values[index]!, (value) => (Number.isNaN(value) ? "-" : value)),
              itemStyle: { color: colours.get(name) },
              barMaxWidth: this.lying ? 18 : 40,
              barGap: "10%",
              silent: true,
              ...(this.lying && !this.isStacked(scene) ? { label: this.endLabel(scene, unit) } : {}),
            },
          ],
    );
    if (this.lying && this.isStacked(scene)) bars.push(this.totals(scene, sums, unit));
    return bars;
  }

  private endLabel(scene: Scene, unit: string) {
    const formatter = (item: { value: unknown }) =>
      typeof item.value === "number" ? axisText(item.value, unit) : "";
    return { show: true, position: "right", color: scene.palette.muted, fontSize: 11, formatter };
  }

  /** Bars of no length at the ends of the others, which carry the totals. */
  private totals(scene: Scene, sums: Sums, unit: string) {
    const all = sums.categories.map((_, at) => axisText(total(sums, at, scene.hidden), unit));
    const formatter = (item: { dataIndex: number }) => all[item.dataIndex] ?? "";
    return {
      type: "bar",
      stack: "all",
      data: all.map(() => 0),
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
    const lines = sums.series.flatMap((name, index) => {
      const value = sums.values[index]![at]!;
      if (scene.hidden.has(name) || Number.isNaN(value)) return [];
      return [{ label: name, value: exactText(value, measure.unit), colour: colours.get(name)! }];
    });
    if (lines.length > 1 && this.isStacked(scene)) {
      lines.push({
        label: "total",
        value: exactText(total(sums, at, scene.hidden), measure.unit),
        colour: "",
      });
    }
    return { title: this.lying ? category : `${this.category.title} ${category}`, lines };
  }
}

export function bars(figure: Figure): Drawer | null {
  const category = columnNamed(figure, figure.options["category"]);
  const measures = valueColumns(figure, "toggles", "value");
  if (!category || measures.length === 0) return null;
  return new Bars(figure, category, columnNamed(figure, figure.options["series"]), measures);
}
