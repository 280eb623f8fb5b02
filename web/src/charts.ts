/**
 * Charts without a page, for engines that know ES5 alone: libcommlens-charts.so (commlens/report/svg_module.cpp) runs
 * this script and calls `commlensChart`.
 */
import "./old_engines";
import { type Drawer, initialChoices, type Scene } from "./drawer";
import { makerOf } from "./drawers";
import { dark, light } from "./palette";
import type { Figure } from "./report_data";
import { svgText } from "./svg_text";

/** A figure without the values of its columns. */
interface Head {
  id: string;
  title: string;
  caption: string;
  kind: string;
  options: Record<string, unknown>;
  rows: number;
  columns: { name: string; title: string; unit: string; dictionary?: string[] }[];
}

interface Settings {
  width: number;
  theme: "light" | "dark";
  /** By id of a choice or switch of the drawer. */
  chosen: [string, string][];
}

function optionsOf(drawer: Drawer): Map<string, string[]> {
  const options = new Map<string, string[]>();
  for (const choice of drawer.choices)
    options.set(
      choice.id,
      choice.options.map(({ value }) => value),
    );
  for (const item of drawer.switches) options.set(item.id, ["on", "off"]);
  return options;
}

function chosenOf(drawer: Drawer, wanted: Settings["chosen"]): Map<string, string> {
  const chosen = initialChoices(drawer);
  const options = optionsOf(drawer);
  for (const [id, value] of wanted) {
    if (!options.get(id)?.includes(value)) {
      const all = Array.from(options, ([name, values]) => `${name}: ${values.join(", ")}`).join("; ");
      throw new Error(`has no "${value}" to choose for "${id}"; there are: ${all || "none"}`);
    }
    chosen.set(id, value);
  }
  return chosen;
}

/**
 * The SVG of a figure; "" where its table is all there is. Head and settings come as JSON; `values` has those of each column:
 * NaN is missing, texts are places in the dictionary.
 */
function chart(head: string, settings: string, values: Float64Array[]): string {
  const { columns, ...texts } = JSON.parse(head) as Head;
  const { width, theme, chosen } = JSON.parse(settings) as Settings;
  const figure: Figure = {
    ...texts,
    columns: columns.map((column, at) => ({ ...column, values: values[at]! })),
  };
  const drawer = figure.rows > 0 ? makerOf(figure.kind)?.(figure) : null;
  if (!drawer) return "";
  const palette = theme === "dark" ? dark : light;
  const scene: Scene = {
    palette,
    width,
    height: 0,
    chosen: chosenOf(drawer, chosen),
    hidden: new Set(),
    x: [0, 1],
    y: [0, 1],
  };
  scene.height = Math.round(drawer.height(scene));
  return svgText(drawer, scene, { id: figure.id, title: figure.title, background: palette.paper });
}

Object.assign(globalThis, { commlensChart: chart });
