// Every kind of chart is drawn, quietly, and nothing is asked of the network.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture, has, launch, opened, painted, shown } from "./page.mjs";

let browser;
let view;
before(async () => {
  browser = await launch();
  view = await opened(browser, fixture("demo"));
});
after(() => browser.close());

// Of src/palette.ts, light: those that the figure's ops or phases have.
const [blue, orange, green, vermillion, compute] = ["#196fd3", "#e3b719", "#408d74", "#ba5300", "#d5dae1"];
const expected = {
  breakdown: [blue, orange, green],
  prediction: [blue, orange, green],
  iterations: [blue, orange, green],
  sizes: [blue],
  "sizes-by-op": [blue, orange, green],
  matrix: ["#062d57"],
  timeline: [blue, orange, green, vermillion, compute],
  overlap: [blue, orange],
  bubble: ["#b9d8ee", "#062d57"], // the ramp's ends: the first and last of 32 ranks
};
for (const [id, colours] of Object.entries(expected)) {
  test(`the chart of ${id} is painted in the colours of its series`, async () => {
    await shown(view.page, id);
    const chart = await painted(view.page, id);
    assert.ok(chart.share > 0.01, `only ${chart.share} of the canvas is painted`);
    for (const colour of colours) assert.ok(has(chart.colours, colour), `${colour} is missing`);
  });
}

test("scattered points are painted, half transparent", async () => {
  await shown(view.page, "scatter");
  assert.ok((await painted(view.page, "scatter")).covered > 2000);
});

test("the stacked bars are as long as their values", async () => {
  // Of web/test/figures.mjs: the longest bar is that of all_gather, from whose end the label follows.
  const { page } = view;
  const figure = await shown(page, "breakdown");
  const rows = await figure
    .locator("tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  const bytes = (call, phase) =>
    Number(rows.find((row) => row[0] === call && row[1] === phase)[2].replaceAll(",", ""));
  const [forward, backward] = ["forward", "backward"].map((phase) => bytes("all_gather tp x4", phase));
  const lengths = await page.evaluate(() => {
    const canvas = document.querySelector('figure[data-figure="breakdown"] canvas');
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const longest = { blue: 0, orange: 0 };
    for (let y = 0; y < height; y++) {
      const count = { blue: 0, orange: 0 };
      for (let x = 0; x < width; x++) {
        const colour =
          (data[4 * (y * width + x)] << 16) |
          (data[4 * (y * width + x) + 1] << 8) |
          data[4 * (y * width + x) + 2];
        if (colour === 0x196fd3) count.blue++;
        if (colour === 0xe3b719) count.orange++;
      }
      if (count.orange > longest.orange) Object.assign(longest, count);
    }
    return longest;
  });
  const drawn = lengths.blue / lengths.orange;
  assert.ok(
    Math.abs(drawn - forward / backward) < 0.01,
    `drawn ${drawn}, the table says ${forward / backward}`,
  );
});

test("the console is silent", () => assert.deepEqual(view.said, []));
test("no request leaves the page", () => assert.deepEqual(view.asked, []));
