/** Intervals as error bars: a line from the lower to the upper end, with a mark across each. */
import { type Column, columnNamed, type Figure, numberAt } from "./report_data";
import { axisText } from "./units";

export interface Interval {
  low: number;
  high: number;
}

/** The columns of the ends of an interval. */
export interface Ends {
  low: Column;
  high: Column;
}

/** Those that the options `low` and `high` name for the measure at this place: a list each, or one name. */
export function endsOf(figure: Figure, low: string, high: string, place = 0): Ends | undefined {
  const named = (option: string) => {
    const names = figure.options[option];
    return columnNamed(figure, Array.isArray(names) ? names[place] : names);
  };
  const ends = { low: named(low), high: named(high) };
  return ends.low && ends.high ? { low: ends.low, high: ends.high } : undefined;
}

export function intervalAt(ends: Ends | undefined, row: number): Interval | undefined {
  const interval = { low: numberAt(ends?.low, row), high: numberAt(ends?.high, row) };
  return Number.isFinite(interval.low) && Number.isFinite(interval.high) ? interval : undefined;
}

/** As a tooltip says it. */
export const intervalText = ({ low, high }: Interval, unit: string): string =>
  `${axisText(low, unit)} to ${axisText(high, unit)}`;

const thickness = 1.5;
const half = 4;

/** The rectangles of a whisker from one pixel to another, that lies or stands. */
export function whisker(from: [number, number], to: [number, number]): number[] {
  const lies = Math.abs(to[0] - from[0]) >= Math.abs(to[1] - from[1]);
  const rectangles: number[] = [];
  const add = (x: number, y: number, width: number, height: number) => rectangles.push(x, y, width, height);
  if (lies) {
    const [left, right] = [Math.min(from[0], to[0]), Math.max(from[0], to[0])];
    add(left, from[1] - thickness / 2, right - left, thickness);
    for (const end of [left, right]) add(end - thickness / 2, from[1] - half, thickness, 2 * half);
  } else {
    const [top, bottom] = [Math.min(from[1], to[1]), Math.max(from[1], to[1])];
    add(from[0] - thickness / 2, top, thickness, bottom - top);
    for (const end of [top, bottom]) add(from[0] - half, end - thickness / 2, 2 * half, thickness);
  }
  return rectangles;
}
