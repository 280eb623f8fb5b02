/** What a kind of chart is to the page: what can be chosen, how tall it is, what it draws, what it says of a point. */
import type { Option } from "./engine";
import type { Palette } from "./palette";
import type { Figure } from "./report_data";

/** One of several, as a row of buttons, or as a list. */
export interface Choice {
  id: string;
  label: string;
  options: { value: string; label: string }[];
  initial: string;
  /** `steps` is a list with buttons to the one before and the one after. */
  form: "buttons" | "list" | "steps";
}

export interface Switch {
  id: string;
  label: string;
  initial: boolean;
}

/** The part of an axis that is shown, as shares of all of it. */
export type Span = [number, number];

export interface Scene {
  palette: Palette;
  width: number;
  height: number;
  /** What is chosen, by id; switches are "on" or "off". */
  chosen: Map<string, string>;
  /** Series that the reader switched off. */
  hidden: Set<string>;
  x: Span;
  y: Span;
}

export interface LegendEntry {
  name: string;
  colour: string;
}

/** The colours of a matrix, least to most. */
export interface Ramp {
  least: string;
  most: string;
  colours: readonly string[];
}

export interface TipLine {
  label: string;
  value: string;
  colour?: string;
}
export interface Tip {
  title: string;
  lines: TipLine[];
}

export interface Drawer {
  choices: Choice[];
  switches: Switch[];
  zoom: "none" | "x" | "xy";
  height(scene: Scene): number;
  /** What is drawn of what could be chosen, in a few words. */
  subject(scene: Scene): string;
  legend(scene: Scene): LegendEntry[];
  ramp?(scene: Scene): Ramp;
  /** What the chart leaves out, in a sentence; null where that is nothing. */
  note?(scene: Scene): string | null;
  /** Without legend and title: the page shows those itself, and adds them where a picture is saved. */
  option(scene: Scene): Option;
  /** What there is at a point of the axes (a category counts from 0); `perPixel` is the axes' lengths of a pixel. */
  tip(scene: Scene, at: [number, number], perPixel: [number, number]): Tip | null;
}

/** null where the figure lacks what its kind needs. */
export type DrawerMaker = (figure: Figure) => Drawer | null;

/** What is chosen where nobody has chosen. */
export function initialChoices(drawer: Drawer): Map<string, string> {
  const chosen = new Map<string, string>();
  for (const choice of drawer.choices) chosen.set(choice.id, choice.initial);
  for (const item of drawer.switches) chosen.set(item.id, item.initial ? "on" : "off");
  return chosen;
}

export function isOn(scene: Scene, id: string): boolean {
  return scene.chosen.get(id) === "on";
}

export const isNarrow = (scene: Scene): boolean => scene.width < 520;

/** A span of shares as numbers of the axis. */
export function spanOf([from, to]: Span, low: number, high: number): [number, number] {
  return [low + from * (high - low), low + to * (high - low)];
}
