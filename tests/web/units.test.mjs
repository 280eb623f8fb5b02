// Numbers as the page says them. Expected texts are worked out by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { moduleOf } from "./page.mjs";

const units = await moduleOf("units");
const zoom = await moduleOf("zoom");
const palette = await moduleOf("palette");
const labels = await moduleOf("labels");
const sums = await moduleOf("sums");

test("sizes are binary", () => {
  const cases = [
    [0, "0 B"],
    [1, "1 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [1536, "1.5 KiB"],
    [1048576, "1 MiB"],
    [1048575, "1 MiB"],
    [6.73e9, "6.27 GiB"],
    [2 ** 50, "1 PiB"],
  ];
  for (const [bytes, text] of cases) assert.equal(units.bytesText(bytes), text);
});

test("large numbers have commas, as Intl writes them in English", () => {
  const cases = [
    [0, "0"],
    [999, "999"],
    [1000, "1,000"],
    [-1234567.8916, "-1,234,567.892"],
    [0.0004, "0"],
    [12.5, "12.5"],
    [9007199254740991, "9,007,199,254,740,991"],
  ];
  for (const [number, text] of cases) {
    assert.equal(units.withCommas(number), text);
    assert.equal(number.toLocaleString("en-US", { maximumFractionDigits: 3 }), text);
  }
});

test("bandwidths are decimal", () => {
  const cases = [
    [25e9, "25 GB/s"],
    [1.25e9, "1.25 GB/s"],
    [900e6, "900 MB/s"],
    [12e3, "12 kB/s"],
  ];
  for (const [rate, text] of cases) assert.equal(units.bandwidthText(rate), text);
});

test("times take the unit that fits", () => {
  const cases = [
    [0, "0 ns"],
    [999, "999 ns"],
    [1000, "1 µs"],
    [1_250_000, "1.25 ms"],
    [61e9, "61 s"],
  ];
  for (const [time, text] of cases) assert.equal(units.timeText(time), text);
});

test("a tip gives the exact number beside the short one", () => {
  assert.equal(units.exactText(1536, "bytes"), "1.5 KiB (1,536 bytes)");
  assert.equal(units.exactText(1_250_001, "ns"), "1.25 ms (1,250,001 ns)");
  assert.equal(units.exactText(1234567, ""), "1,234,567");
  assert.equal(units.exactText(0.125, "share"), "12.5 %");
  assert.equal(units.exactText(Number.NaN, "bytes"), "-");
});

test("marks of an axis stand at round numbers of its unit", () => {
  const cases = [
    [6.27 * 2 ** 30, "bytes", 2 ** 30],
    [100, "", 20],
    [1, "share", 0.2],
    [3, "", 1],
    [1.2e6, "ns", 2e5],
  ];
  for (const [largest, unit, distance] of cases)
    assert.equal(units.markDistance(largest, unit), distance, `${largest} ${unit}`);
});

test("marks of a narrow window have the digits that tell them apart", () => {
  assert.equal(units.timeMark(20e6, 100e6), "20 ms");
  assert.equal(units.timeMark(20.125e6, 0.1e6), "20125 µs");
  assert.equal(units.timeMark(2.5e6, 4e6), "2.5 ms");
});

test("zooming keeps the point under the pointer, and stays inside", () => {
  assert.deepEqual(zoom.zoomed([0, 1], 0.5, 0.5), [0.25, 0.75]);
  assert.deepEqual(zoom.zoomed([0, 1], 0.5, 0), [0, 0.5]);
  assert.deepEqual(zoom.zoomed([0.25, 0.75], 4, 0.5), [0, 1]);
  assert.deepEqual(zoom.moved([0.25, 0.75], 0.25), [0.375, 0.875]);
  assert.deepEqual(zoom.moved([0.5, 1], 1), [0.5, 1]);
  assert.deepEqual(zoom.moved([0, 0.5], -1), [0, 0.5]);
});

test("ops keep their colour in every chart, and no two series of one chart share one", () => {
  const one = palette.coloursOf(["all_reduce", "send"], palette.light);
  const other = palette.coloursOf(["send", "all_reduce dp x8", "mine"], palette.light);
  assert.equal(one.get("all_reduce"), other.get("all_reduce dp x8"));
  assert.equal(one.get("send"), other.get("send"));
  assert.equal(new Set(other.values()).size, 3);
});

test("names beside bars are broken at spaces, and cut after the last line", () => {
  assert.deepEqual(labels.wrapped("Llama-3.1 405B, Megatron 0.19", 20, 4), [
    "Llama-3.1 405B,",
    "Megatron 0.19",
  ]);
  assert.deepEqual(labels.wrapped("all_reduce", 20, 4), ["all_reduce"]);
  assert.deepEqual(labels.wrapped("abcdefgh", 3, 4), ["abc", "def", "gh"]);
  assert.deepEqual(labels.wrapped("one two three four", 5, 2), ["one", "two…"]);
});

/** Of one bar: series "0", "1", … with these values. */
const oneBar = (values) => ({
  categories: ["job"],
  series: values.map((_, at) => String(at)),
  values: values.map((value) => Float64Array.of(value)),
});

test("more series than colours: the smallest are one, and no colour stands for two", () => {
  // Twelve series: nine stay, three of 1, 2 and 3 are added up.
  const made = sums.folded(oneBar([10, 1, 20, 30, 40, 2, 50, 60, 70, 80, 3, 90]));
  assert.deepEqual(made.series, ["0", "2", "3", "4", "6", "7", "8", "9", "11", "3 others"]);
  assert.deepEqual(
    made.values.map((values) => values[0]),
    [10, 20, 30, 40, 50, 60, 70, 80, 90, 6],
  );
  assert.equal(new Set(palette.coloursOf(made.series, palette.light).values()).size, 10);
  const ten = oneBar([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert.equal(sums.folded(ten), ten);
});

test("another measure keeps the series that the first one kept", () => {
  const other = sums.folded(oneBar([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), ["0", "1", "12 others"]);
  assert.deepEqual(other.series, ["0", "1", "10 others"]);
  assert.equal(other.values[2][0], 75);
});

// Brettel, Vienot and Mollon's red and green blindness as Machado, Oliveira and Fernandes (2009, table 1, severity 1)
// give it, on linear RGB; distances in OKLab (Ottosson 2020), where 0.02 is about what one sees side by side.
const visions = {
  normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
};
const linear = (hex) =>
  [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
const times = (m, [a, b, c]) => [0, 3, 6].map((row) => m[row] * a + m[row + 1] * b + m[row + 2] * c);
const oklab = (rgb) => {
  const cone = times(
    [
      0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566, 0.0883024619,
      0.2817188376, 0.6299787005,
    ],
    rgb,
  ).map((v) => Math.cbrt(Math.max(0, v)));
  return times(
    [
      0.2104542553, 0.793617785, -0.0040720468, 1.9779984951, -2.428592205, 0.4505937099, 0.0259040371,
      0.7827717662, -0.808675766,
    ],
    cone,
  );
};
for (const [vision, matrix] of Object.entries(visions)) {
  for (const shade of ["light", "dark"]) {
    test(`the ${shade} colours of the ops differ with ${vision}`, () => {
      const colours = palette[shade].series;
      for (let a = 0; a < colours.length; a++) {
        for (let b = a + 1; b < colours.length; b++) {
          const [x, y] = [a, b].map((at) => oklab(times(matrix, linear(colours[at]))));
          const distance = Math.hypot(...x.map((value, at) => value - y[at]));
          assert.ok(distance > 0.1, `${colours[a]} and ${colours[b]}: ${distance.toFixed(3)}`);
        }
      }
    });
  }
}
