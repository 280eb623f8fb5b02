/** Axes and the frame of a chart, in the page's look. */
import type { Scene } from "./drawer";
import { axisText, markDistance } from "./units";

type Settings = Record<string, unknown>;

/** Without quotes: ECharts writes it into attributes of a saved SVG as it is. */
export const font = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Noto Sans, sans-serif";

/** What every chart has. `grid` is the distance to the edges; labels of axes are inside it. */
export function frame(scene: Scene, grid: Settings = {}): Settings {
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { fontFamily: font, color: scene.palette.ink },
    grid: {
      left: 4,
      right: 20,
      top: 12,
      bottom: 4,
      outerBoundsMode: "same",
      outerBoundsContain: "axisLabel",
      ...grid,
    },
  };
}

function look(scene: Scene): Settings {
  const { palette } = scene;
  return {
    axisLabel: { color: palette.muted, fontSize: 11.5, hideOverlap: true },
    axisLine: { lineStyle: { color: palette.line } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: palette.line } },
    nameTextStyle: { color: palette.muted, fontSize: 11.5 },
  };
}

/** From 0 to `largest` (`across` the page: exactly, for the labels at the ends of bars), marked at round numbers. */
export function measureAxis(scene: Scene, unit: string, largest: number, across = false): Settings {
  const base = look(scene);
  const few = across && scene.width < 700 ? largest * (scene.width < 520 ? 2.4 : 1.6) : largest;
  const interval = markDistance(few, unit);
  const whole = Math.max(interval, Math.ceil(largest / interval - 1e-9) * interval);
  return {
    ...base,
    type: "value",
    min: 0,
    max: across && largest > 0 ? largest : whole,
    interval,
    axisLine: { show: false },
    axisLabel: {
      ...(base["axisLabel"] as Settings),
      formatter: (value: number) => axisText(value, unit),
      showMaxLabel: !across || largest === whole,
    },
  };
}

/** What an axis counts, written along it. */
export const named = (name: string, nameGap: number): Settings => ({ name, nameLocation: "middle", nameGap });

export function logAxis(scene: Scene, unit: string, least: number, most: number, logBase = 10): Settings {
  const base = look(scene);
  const power = (value: number) => Math.log(value) / Math.log(logBase);
  const low = Math.floor(power(least) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(power(most) - 1e-9));
  return {
    ...base,
    type: "log",
    logBase,
    min: logBase ** low,
    max: logBase ** high,
    axisLabel: { ...(base["axisLabel"] as Settings), formatter: (value: number) => axisText(value, unit) },
  };
}

export function valueAxis(scene: Scene, unit: string, settings: Settings): Settings {
  const base = look(scene);
  return {
    ...base,
    type: "value",
    ...settings,
    axisLabel: {
      ...(base["axisLabel"] as Settings),
      formatter: (value: number) => axisText(value, unit),
      ...((settings["axisLabel"] as Settings | undefined) ?? {}),
    },
  };
}

export function categoryAxis(scene: Scene, names: string[], settings: Settings = {}): Settings {
  const base = look(scene);
  return {
    ...base,
    type: "category",
    data: names,
    splitLine: { show: false },
    ...settings,
    axisLabel: {
      ...(base["axisLabel"] as Settings),
      ...((settings["axisLabel"] as Settings | undefined) ?? {}),
    },
  };
}
