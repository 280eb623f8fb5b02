/** The intervals of a timeline by iteration and rank, found and thinned out without an object per interval. */
import { type Column, columnNamed, type Figure, numberAt } from "./report_data";

/** `op` and `axis` are texts. */
export interface TimelineColumns {
  rank: Column;
  start: Column;
  duration: Column;
  op: Column;
  iteration: Column | undefined;
  axis: Column | undefined;
  bytes: Column | undefined;
  kind: Column | undefined;
}

export function timelineColumns(figure: Figure): TimelineColumns | null {
  const rank = columnNamed(figure, "rank");
  const start = columnNamed(figure, "start_ns");
  const duration = columnNamed(figure, "duration_ns");
  const op = columnNamed(figure, "op");
  const axis = columnNamed(figure, "axis");
  if (!rank || !start || !duration || !op?.dictionary) return null;
  return {
    rank,
    start,
    duration,
    op,
    iteration: columnNamed(figure, "iteration"),
    axis: axis?.dictionary ? axis : undefined,
    bytes: columnNamed(figure, "message_bytes"),
    kind: columnNamed(figure, "kind"),
  };
}

/** The different values of a column, ascending, and the place of each row's among them. */
function placed(column: Column | undefined, rows: number): { values: number[]; places: Uint32Array } {
  const places = new Uint32Array(rows);
  if (!column) return { values: [0], places };
  const seen = new Map<number, number>();
  for (let row = 0; row < rows; row++) {
    const value = column.values[row]!;
    if (row === 0 || value !== column.values[row - 1]) seen.set(value, 0);
  }
  const values = Array.from(seen.keys()).sort((a, b) => a - b);
  for (const [at, value] of values.entries()) seen.set(value, at);
  for (let row = 0; row < rows; row++) {
    const value = column.values[row]!;
    places[row] = row > 0 && value === column.values[row - 1] ? places[row - 1]! : seen.get(value)!;
  }
  return { values, places };
}

export class TimelineModel {
  readonly ranks: number[];
  readonly iterations: number[];
  /** Rows of the figure, by iteration, then rank, then start. */
  private readonly order: Uint32Array;
  /** Where each (iteration, rank) begins in `order`. */
  private readonly begins: Uint32Array;
  private readonly longest: Float64Array;
  /** What \`kind\` has for computing; -1 where nothing is. */
  private readonly compute: number;

  constructor(
    readonly columns: TimelineColumns,
    rows: number,
  ) {
    const ranks = placed(columns.rank, rows);
    const iterations = placed(columns.iteration, rows);
    this.ranks = ranks.values;
    this.iterations = iterations.values;
    this.compute = columns.kind?.dictionary?.indexOf("compute") ?? -1;
    const cells = this.ranks.length * this.iterations.length;
    const cellOf = (row: number) => iterations.places[row]! * this.ranks.length + ranks.places[row]!;
    this.begins = new Uint32Array(cells + 1);
    this.longest = new Float64Array(cells);
    for (let row = 0; row < rows; row++) {
      const cell = cellOf(row);
      this.begins[cell + 1]!++;
      this.longest[cell] = Math.max(this.longest[cell]!, numberAt(columns.duration, row));
    }
    for (let cell = 0; cell < cells; cell++) this.begins[cell + 1]! += this.begins[cell]!;
    this.order = new Uint32Array(rows);
    const next = this.begins.slice();
    for (let row = 0; row < rows; row++) this.order[next[cellOf(row)]!++] = row;
    for (let cell = 0; cell < cells; cell++) this.sortByStart(cell);
  }

  private start(at: number): number {
    return numberAt(this.columns.start, this.order[at]!);
  }

  private sortByStart(cell: number): void {
    const [from, to] = [this.begins[cell]!, this.begins[cell + 1]!];
    for (let at = from + 1; at < to; at++) {
      if (this.start(at) < this.start(at - 1)) {
        const { start } = this.columns;
        this.order.subarray(from, to).sort((a, b) => numberAt(start, a) - numberAt(start, b));
        return;
      }
    }
  }

  isCompute(row: number): boolean {
    return this.compute >= 0 && this.columns.kind!.values[row] === this.compute;
  }

  /** First start and last end of these iterations. */
  extent(iterations: number[]): [number, number] {
    let first = Number.POSITIVE_INFINITY;
    let last = Number.NEGATIVE_INFINITY;
    for (const iteration of iterations) {
      for (let rank = 0; rank < this.ranks.length; rank++) {
        this.each(iteration, rank, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, (row) => {
          const start = numberAt(this.columns.start, row);
          first = Math.min(first, start);
          last = Math.max(last, start + numberAt(this.columns.duration, row));
        });
      }
    }
    return first < last
      ? [first, last]
      : [Number.isFinite(first) ? first : 0, (Number.isFinite(first) ? first : 0) + 1];
  }

  /** Rows of an iteration and rank (both by position) that touch [from, to], by start. */
  each(iteration: number, rank: number, from: number, to: number, visit: (row: number) => void): void {
    const cell = iteration * this.ranks.length + rank;
    const end = this.begins[cell + 1]!;
    let low = this.begins[cell]!;
    let high = end;
    const earliest = from - this.longest[cell]!;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.start(middle) < earliest) low = middle + 1;
      else high = middle;
    }
    for (let at = low; at < end; at++) {
      const row = this.order[at]!;
      const start = numberAt(this.columns.start, row);
      if (start > to) return;
      if (start + numberAt(this.columns.duration, row) >= from) visit(row);
    }
  }
}

/** The fewest pixels of an interval, so that a short one is seen. */
const thinnest = 0.7;

/**
 * Joins what is closer than the eye tells apart: equal colours that touch become one rectangle, and an interval below a
 * pixel inside what is already there is left out. So a row has at most about two rectangles a pixel.
 */
export class Strip {
  private left = Number.NaN;
  private right = Number.NaN;
  private colour = -1;

  constructor(
    private readonly top: number,
    private readonly height: number,
    private readonly rectangles: number[][],
  ) {}

  add(from: number, to: number, colour: number): void {
    const right = Math.max(to, from + thinnest);
    if (colour === this.colour && from <= this.right + 0.3 && (to - from < 2 || this.right - this.left < 2)) {
      this.right = Math.max(this.right, right);
      return;
    }
    if (to <= this.right && to - from < 1) return;
    this.flush();
    this.left = from;
    this.right = right;
    this.colour = colour;
  }

  flush(): void {
    if (this.colour < 0) return;
    const width = this.right - this.left;
    this.rectangles[this.colour]!.push(this.left, this.top, width > 4 ? width - 0.6 : width, this.height);
    this.colour = -1;
    this.left = this.right = Number.NaN;
  }
}
