/** Zooming and moving a window over an axis: spans are shares of the whole. */
import type { Span } from "./drawer";

const narrowest = 1e-7;

function placed(from: number, width: number): Span {
  const size = Math.min(1, Math.max(narrowest, width));
  const start = Math.min(1 - size, Math.max(0, from));
  return [start, start + size];
}

/** `factor` below 1 shows less; the point at `share` of the window stays where it is. */
export function zoomed([from, to]: Span, factor: number, share = 0.5): Span {
  const width = Math.max(narrowest, (to - from) * factor);
  return placed(from + share * (to - from - width), width);
}

/** By `share` of the window. */
export function moved([from, to]: Span, share: number): Span {
  return placed(from + share * (to - from), to - from);
}

export const isWhole = ([from, to]: Span): boolean => from <= 0 && to >= 1;
