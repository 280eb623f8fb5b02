/** Colours of the charts. test/palette.mjs checks that they differ for readers who see fewer colours. */

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

// Okabe and Ito's palette (jfly.uni-koeln.de/color), its yellow and black replaced by tones that hold on white and on
// near-black, and lightened for the dark page.
export const light: Palette = {
  dark: false,
  paper: "#ffffff",
  ink: "#1b2330",
  muted: "#5b6675",
  line: "#dfe4ea",
  raised: "#f6f8fa",
  compute: "#d5dae1",
  series: [
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
    "#5a3d8a",
    "#8f8f2e",
    "#6b7280",
    "#22303f",
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
    "#3b94d9",
    "#f0b429",
    "#1fb58a",
    "#ec7a3c",
    "#dd95bd",
    "#8fd0f7",
    "#a88be0",
    "#c3c35c",
    "#97a1af",
    "#e8edf3",
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
