/** Values added up by category and series, as bars show them. */
import { type Column, type Figure, numberAt, textAt } from "./report_data";
import { light } from "./palette";
import { type Ends, type Interval, intervalAt } from "./whiskers";

export const mostLying = 40;
/** As many series as there are colours that one tells apart. */
const mostSeries = light.series.length;

/** Values added up by category and series. */
export interface Sums {
  categories: string[];
  series: string[];
  /** [series][category]; NaN where there is nothing. */
  values: Float64Array[];
  /** [series][category] of the values; where bars are stacked from parts, [0][category] of their sums. */
  intervals?: (Interval | undefined)[][];
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

export function withIntervals(
  figure: Figure,
  sums: Sums,
  category: Column,
  series: Column | undefined,
  ends: Ends | undefined,
): Sums {
  if (!ends) return sums;
  const [, categoryAt] = indexOfNames(category, figure.rows, "");
  const [, seriesAt] = indexOfNames(series, figure.rows, "");
  const intervals: (Interval | undefined)[][] = sums.series.map(() => []);
  for (let row = 0; row < figure.rows; row++)
    intervals[seriesAt[row]!]![categoryAt[row]!] = intervalAt(ends, row);
  return { ...sums, intervals };
}

/** A series for each of the columns, whose sum is the bar. */
export function ofParts(figure: Figure, category: Column, parts: Column[], ends: Ends | undefined): Sums {
  const sums = summed(figure, category, undefined, parts[0]!);
  const all = withIntervals(figure, sums, category, undefined, ends);
  return {
    ...all,
    series: parts.map((part) => part.title),
    values: parts.map((part) => summed(figure, category, undefined, part).values[0]!),
  };
}

export function total(sums: Sums, at: number, hidden: Set<string>): number {
  let all = 0;
  for (const [index, name] of sums.series.entries()) {
    const value = sums.values[index]![at]!;
    if (!hidden.has(name) && !Number.isNaN(value)) all += value;
  }
  return all;
}

/** Those of the largest totals, in the order they had. */
export function largestOf(sums: Sums): Sums {
  if (sums.categories.length <= mostLying) return sums;
  const order = sums.categories.map((_, at) => at);
  const totals = order.map((at) => total(sums, at, new Set()));
  order.sort((a, b) => totals[b]! - totals[a]!);
  const kept = order.slice(0, mostLying).sort((a, b) => a - b);
  return {
    categories: kept.map((at) => sums.categories[at]!),
    series: sums.series,
    values: sums.values.map((values) => Float64Array.from(kept, (at) => values[at]!)),
    ...(sums.intervals
      ? { intervals: sums.intervals.map((intervals) => kept.map((at) => intervals[at])) }
      : {}),
  };
}

/**
 * Where there are more series than colours, those whose part of every bar is small as one. `kept` has the names of the
 * series that another measure left, so that a colour means the same in both.
 */
export function folded(sums: Sums, kept?: string[]): Sums {
  if (sums.series.length <= mostSeries) return sums;
  const totals = sums.categories.map((_, at) => total(sums, at, new Set()));
  const weights = sums.values.map((values) =>
    Math.max(0, ...totals.map((all, at) => (all > 0 ? (values[at] || 0) / all : 0))),
  );
  const order = sums.series.map((_, at) => at).sort((a, b) => weights[b]! - weights[a]!);
  const chosen = kept
    ? sums.series.map((_, at) => at).filter((at) => kept.includes(sums.series[at]!))
    : order.slice(0, mostSeries - 1).sort((a, b) => a - b);
  const rest = order.filter((at) => !chosen.includes(at));
  const others = Float64Array.from(sums.categories, (_, at) => {
    const parts = rest.map((series) => sums.values[series]![at]!).filter((value) => !Number.isNaN(value));
    return parts.length > 0 ? parts.reduce((sum, value) => sum + value, 0) : Number.NaN;
  });
  return {
    categories: sums.categories,
    series: [...chosen.map((at) => sums.series[at]!), `${rest.length} others`],
    values: [...chosen.map((at) => sums.values[at]!), others],
  };
}
