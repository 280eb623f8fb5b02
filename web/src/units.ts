/** Numbers with their units: sizes binary, bandwidths decimal, times in the unit that fits. */

const binaryUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const timeUnits: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** At most three digits that count, without trailing zeros. */
function short(value: number): string {
  const size = Math.abs(value);
  const decimals = size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  return String(Number(value.toFixed(decimals)));
}

/** At most three decimals; not by toLocaleString, which engines without Intl have for whole numbers at most. */
export function withCommas(value: number): string {
  if (!(Math.abs(value) < 1e21)) return String(value);
  const [whole, decimals] = value.toFixed(3).split(".") as [string, string];
  const kept = decimals.replace(/0+$/, "");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${kept === "" ? "" : `.${kept}`}`;
}

export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1023.5 && unit + 1 < binaryUnits.length) {
    value /= 1024;
    unit++;
  }
  return `${short(value)} ${binaryUnits[unit]}`;
}

export function timeText(nanoseconds: number): string {
  const [scale, unit] = timeUnits.find(([size]) => Math.abs(nanoseconds) >= size * 0.9995) ?? [1, "ns"];
  return `${short(nanoseconds / scale)} ${unit}`;
}

export function bandwidthText(bytesPerSecond: number): string {
  const [scale, unit] =
    bytesPerSecond >= 1e9
      ? [1e9, "GB/s"]
      : bytesPerSecond >= 1e6
        ? [1e6, "MB/s"]
        : bytesPerSecond >= 1e3
          ? [1e3, "kB/s"]
          : [1, "B/s"];
  return `${short(bytesPerSecond / scale)} ${unit}`;
}

function countText(count: number): string {
  const [scale, suffix] =
    Math.abs(count) >= 1e12
      ? [1e12, "T"]
      : Math.abs(count) >= 1e9
        ? [1e9, "G"]
        : Math.abs(count) >= 1e6
          ? [1e6, "M"]
          : [1, ""];
  return suffix === "" ? withCommas(count) : `${short(count / scale)} ${suffix}`;
}

/** As an axis says it. */
export function axisText(value: number, unit: string): string {
  if (!Number.isFinite(value)) return "-";
  if (unit === "bytes") return bytesText(value);
  if (unit === "ns") return timeText(value);
  if (unit === "s") return timeText(value * 1e9);
  if (unit === "share") return `${short(100 * value)} %`;
  if (unit === "bytes_per_second") return bandwidthText(value);
  return unit === "" ? countText(value) : `${countText(value)} ${unit}`;
}

/** As a tooltip says it: the exact number too, where the short one hides digits. */
export function exactText(value: number, unit: string): string {
  if (!Number.isFinite(value)) return "-";
  if (unit === "bytes" && Math.abs(value) >= 1024) return `${bytesText(value)} (${withCommas(value)} bytes)`;
  if (unit === "ns" && Math.abs(value) >= 1e3) return `${timeText(value)} (${withCommas(value)} ns)`;
  if (unit === "s") return `${timeText(value * 1e9)} (${withCommas(value)} s)`;
  if (unit === "") return withCommas(value);
  return axisText(value, unit);
}

/** A distance between marks of an axis to `largest`: 4 to 8 of them, at round numbers of the unit. */
export function markDistance(largest: number, unit: string): number {
  const rough = largest / 5;
  if (!(rough > 0)) return 1;
  if (unit === "bytes") return 2 ** Math.max(0, Math.round(Math.log2(rough)));
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  const step = (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10) * power;
  return unit === "" ? Math.max(1, step) : step;
}

/** A time on the axis of a window `span` long: the unit of the window, the decimals its marks need. */
export function timeMark(nanoseconds: number, span: number): string {
  const [scale, unit] = timeUnits.find(([size]) => span >= size * 2) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(-Math.log10(span / scale / 10)));
  return `${(nanoseconds / scale).toFixed(decimals)} ${unit}`;
}
