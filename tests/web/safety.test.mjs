// Strings of a trace stay text, and what cannot be drawn says so.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { fixture, directory, launch, opened, shown } from "./page.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

test("a name that holds markup stays text in the table, the legend and the tip", async () => {
  const { page, said, close } = await opened(browser, fixture("demo"));
  const figure = await shown(page, "timeline");
  assert.ok(await figure.locator(".legend button", { hasText: "<script>document.title" }).isVisible());
  const bars = await shown(page, "breakdown");
  const box = await bars.locator(".chart").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 12 + ((box.height - 62) / 7) * 6.5); // the last of seven rows
  await page.locator(".tip").waitFor();
  assert.match(
    await page.locator(".tip-title").textContent(),
    /^<script>document\.title="owned"<\/script><img src=x/,
  );
  assert.equal(await page.locator(".tip script, .tip img, figure img").count(), 0);
  assert.equal(await page.title(), "demo");
  assert.deepEqual(said, []);
  await close();
});

test("a column that cannot be unpacked is reported in its figure, and the others are drawn", async () => {
  const { page, said, close } = await opened(browser, fixture("broken"));
  assert.match(
    await page.locator('figure[data-figure="sizes"] [role=alert]').textContent(),
    /could not be drawn/,
  );
  assert.ok(said.length > 0);
  await shown(page, "matrix");
  assert.equal(await page.locator('figure[data-figure="matrix"] canvas').count(), 1);
  await close();
});

/** A page whose data is changed by `change`. */
function changed(name, change) {
  const text = readFileSync(fixture("broken"), "utf8");
  const file = path.join(directory, name);
  writeFileSync(
    file,
    text.replace(
      /(id="commlens-data">)(.*?)(<\/script>)/s,
      (_, open, data, close) => open + change(data) + close,
    ),
  );
  return file;
}

test("data of another schema leaves the tables alone", async () => {
  const file = changed("schema.html", (data) => data.replace("commlens.report/1", "commlens.report/2"));
  const { page, said, close } = await opened(browser, file);
  assert.equal(await page.locator("canvas").count(), 0);
  assert.ok(await page.locator("details.table > summary").first().isVisible());
  assert.deepEqual(said, []);
  await close();
});

test("a figure of no rows, and one of an unknown kind, keep their tables", async () => {
  const file = changed("unknown.html", (data) => {
    const report = JSON.parse(data);
    report.figures.sizes.kind = "constructor";
    report.figures.matrix.columns = [];
    return JSON.stringify(report).replaceAll("<", "\\u003c");
  });
  const { page, said, close } = await opened(browser, file);
  assert.equal(await page.locator("canvas, [role=alert]").count(), 0);
  assert.deepEqual(said, []);
  await close();
});
