/** Colours of the charts, light and dark. */

export interface Palette {
  dark: boolean;
  paper: string;
  ink: string;
  muted: string;
  line: string;
  raised: string;
  compute: string;
  series: string[];
  /** Least to most. */
  ramp: [string, string, string];
}

// Begun from Okabe and Ito's palette (jfly.uni-koeln.de/color), moved a little so that any two of the ten differ by 0.1
// in OKLab for readers without red or green cones too. tests/web/units.test.mjs checks that.
export const light: Palette = {
  dark: false,
  paper: "#ffffff",
  ink: "#1b2330",
  muted: "#5b6675",
  line: "#dfe4ea",
  raised: "#f6f8fa",
  compute: "#d5dae1",
  series: [
    "#196fd3",
    "#e3b719",
    "#408d74",
    "#ba5300",
    "#df8abc",
    "#13b9ff",
    "#59289b",
    "#b29609",
    "#586180",
    "#00272e",
  ],
  ramp: ["#b9d8ee", "#3d8fc9", "#062d57"],
};

export const dark: Palette = {
  dark: true,
  paper: "#12171e",
  ink: "#e3e8ee",
  muted: "#98a4b3",
  line: "#2b3440",
  raised: "#1a212a",
  compute: "#323c49",
  series: [
    "#5883bd",
    "#ffc800",
    "#2aa27a",
    "#fb5a1a",
    "#c0a2d7",
    "#b7dcff",
    "#8750f0",
    "#c3c290",
    "#5a6965",
    "#f9ffe9",
  ],
  ramp: ["#23455f", "#2f86c4", "#d3edff"],
};

// Each op keeps its colour in every chart, and so does each phase.
const ops = [
  "all_reduce",
  "all_gather",
  "reduce_scatter",
  "all_to_all",
  "broadcast",
  "send",
  "reduce",
  "recv",
  "barrier",
  "other",
];
const phases = ["forward", "backward", "optimizer", "recompute", "init", "", "", "", "other"];

function place(name: string): number {
  if (/^\d+ others$/.test(name)) return phases.indexOf("other"); // series of src/sums.ts
  const op = ops.indexOf(name.split(/[ (]/, 1)[0] ?? "");
  return op >= 0 && name !== "other" ? op : phases.indexOf(name);
}

/** A colour for each name: its own if it is an op or a phase, else the next that none of the others has. */
export function coloursOf(names: string[], palette: Palette): Map<string, string> {
  const colours = new Map<string, string>();
  const taken = new Set<number>();
  for (const name of names) {
    const own = place(name);
    if (own < 0 || taken.has(own)) continue;
    taken.add(own);
    colours.set(name, palette.series[own] ?? palette.muted);
  }
  let next = 0;
  for (const name of names) {
    if (colours.has(name)) continue;
    while (taken.has(next) && taken.size < palette.series.length) next++;
    taken.add(next);
    colours.set(name, palette.series[next % palette.series.length] ?? palette.muted);
    next++;
  }
  return colours;
}

function channels(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** The colour `share` (0 to 1) of the way along the ramp. */
export function rampColour(palette: Palette, share: number): string {
  const at = Math.min(1, Math.max(0, share)) * 2;
  const from = channels(palette.ramp[at < 1 ? 0 : 1]);
  const to = channels(palette.ramp[at < 1 ? 1 : 2]);
  const part = at < 1 ? at : at - 1;
  return `rgb(${from.map((channel, index) => Math.round(channel + (to[index]! - channel) * part)).join(",")})`;
}
