// 64 ranks and 100,000 calls: the file stays below 3 MB, the heap below 60 MB. Times are printed, not judged: they are
// the machine's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture, frame, has, heap, launch, opened, painted, shown, sizeOf } from "./page.mjs";

const megabyte = 1e6;
let browser;
let file;
before(async () => {
  browser = await launch();
  file = fixture("big");
});
after(() => browser.close());

test("a page of 100,000 calls is below 3 MB", () => {
  console.log(`file: ${(sizeOf(file) / megabyte).toFixed(2)} MB`);
  assert.ok(sizeOf(file) < 3 * megabyte, `${sizeOf(file)} bytes`);
});

test("it holds less than 60 MB of heap, before and after use", async () => {
  const started = performance.now();
  const { page, said, close } = await opened(browser, file);
  const ready = performance.now() - started;
  const figure = await shown(page, "timeline");
  const calls = await page.evaluate(() => {
    const { columns } = JSON.parse(document.getElementById("commlens-data").textContent).figures.timeline;
    return columns[0].rows;
  });
  assert.ok(calls >= 100_000, `${calls} intervals`);
  const redrawn = performance.now();
  await figure.locator("select[data-choice=iteration]").selectOption("all");
  await frame(page);
  const all = performance.now() - redrawn;
  const { colours, share } = await painted(page, "timeline");
  assert.ok(share > 0.2, `${share} of the canvas is painted`);
  for (const colour of ["#e3b719", "#408d74", "#196fd3"]) assert.ok(has(colours, colour));
  const before = await heap(page);
  for (let step = 0; step < 10; step++) await figure.locator("[data-zoom=in]").click();
  await figure.locator("[data-zoom=all]").click();
  await figure.locator("[data-switch=lanes]").click();
  await frame(page);
  const used = await heap(page);
  console.log(`open to ready: ${ready.toFixed(0)} ms; all ${calls} intervals drawn: ${all.toFixed(0)} ms`);
  console.log(`heap: ${(before / megabyte).toFixed(1)} MB, after zooming ${(used / megabyte).toFixed(1)} MB`);
  assert.ok(before < 60 * megabyte, `${before} bytes`);
  assert.ok(used < 60 * megabyte, `${used} bytes`);
  assert.deepEqual(said, []);
  await close();
});

test("more than 64 ranks are thinned out, and any 64 of them can be chosen", async () => {
  const { page, said, close } = await opened(browser, fixture("wide"));
  const figure = await shown(page, "timeline");
  const list = figure.locator("select[data-choice=ranks]");
  assert.deepEqual(await list.locator("option").allTextContents(), [
    "1 of 4 ranks",
    "0 to 63",
    "64 to 127",
    "128 to 191",
    "192 to 199",
  ]);
  const tip = page.locator(".tip");
  await list.selectOption("192+1");
  await frame(page);
  const box = await figure.locator(".chart").boundingBox();
  for (let x = box.x + box.width / 4; !(await tip.isVisible()); x += 4) {
    assert.ok(x < box.x + box.width);
    await page.mouse.move(x, box.y + 12 + 15);
  }
  assert.match(await tip.textContent(), /rank 192,/);
  assert.deepEqual(said, []);
  await close();
});

test("bars of 300 categories show the largest and say so", async () => {
  const { page, close } = await opened(browser, fixture("wide"));
  const figure = await shown(page, "breakdown");
  assert.equal(
    await figure.locator(".note").textContent(),
    "The 40 largest of 300; the table has the others.",
  );
  await close();
});
