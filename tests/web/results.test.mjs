// A report of what search and simulate have written: every chart drawn, intervals painted, on a phone and in print too.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { after, before, test } from "node:test";
import { directory, has, launch, opened, painted, shown } from "./page.mjs";

const ink = "#1b2330";
const [blue, orange] = ["#196fd3", "#e3b719"];
const searched = ["--machine", "dgx_h100", "--gpus", "128", "--global-batch", "128"];
let browser;
let page;

function commlens(...words) {
  execFileSync(process.env.COMMLENS_BINARY, words, { stdio: ["ignore", "ignore", "inherit"] });
}

function result(name, ...words) {
  const file = path.join(directory, name);
  commlens(...words, "--format", "json", "-o", file);
  return file;
}

before(async () => {
  browser = await launch();
  page = path.join(directory, "results.html");
  commlens(
    "report",
    result("found.json", "search", "175B", ...searched, "--retime", "3"),
    result("scaling.json", "search", "175B", ...searched, "--sweep", "gpus"),
    result("simulated.json", "simulate", "1.3B", "--ranks", "16", "--zero", "1", "--machine", "dgx_h100"),
    "-o",
    page,
  );
});
after(() => browser.close());

const charts = ["layouts", "front", "changes", "retimed", "scaling", "simulated-time"];

test("every chart is drawn, quietly, with its intervals", async () => {
  const { page: view, said, asked, close } = await opened(browser, page);
  const ids = await view
    .locator("figure[data-figure]")
    .evaluateAll((figures) => figures.map((figure) => figure.dataset.figure));
  assert.deepEqual(ids, charts);
  for (const id of charts) {
    await shown(view, id);
    const { colours } = await painted(view, id);
    assert.ok(has(colours, blue), `${id} has no bars or points`);
    if (["layouts", "changes", "retimed", "simulated-time"].includes(id))
      assert.ok(has(colours, ink), `${id} has no error bars`);
  }
  assert.ok(has((await painted(view, "layouts")).colours, orange), "the second part of a bar is missing");
  assert.equal(await view.locator("[role=alert]").count(), 0);
  assert.deepEqual(said, []);
  assert.deepEqual(asked, []);
  await close();
});

test("a bar says its parts, their sum and its interval", async () => {
  const { page: view, close } = await opened(browser, page);
  const figure = await shown(view, "layouts");
  const chart = await figure.locator(".chart").boundingBox();
  await view.mouse.move(chart.x + chart.width / 2, chart.y + 30);
  const tip = await view.locator(".tip").textContent();
  for (const part of ["computing", "tensor messages", "total", "90 % interval"])
    assert.ok(tip.includes(part), `${part} is missing in ${tip}`);
  await close();
});

for (const width of [390, 768]) {
  test(`${width} pixels need no horizontal scrolling, tables open`, async () => {
    const { page: view, close } = await opened(browser, page, { viewport: { width, height: 740 } });
    for (const id of charts) await shown(view, id);
    for (const summary of await view.locator("details.table > summary").all()) await summary.click();
    assert.equal(await view.evaluate(() => document.documentElement.scrollWidth), width);
    await close();
  });
}

test("print has a drawing of each", async () => {
  const { page: view, said, close } = await opened(browser, page);
  await view.emulateMedia({ media: "print" });
  await view.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const drawings = await view.evaluate(
    () =>
      [...document.querySelectorAll("svg.for-print")].filter(
        (svg) => svg.getBoundingClientRect().height > 100,
      ).length,
  );
  assert.equal(drawings, charts.length);
  assert.deepEqual(said, []);
  await close();
});
