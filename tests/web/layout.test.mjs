// Phone, print, wide and script-less: the page is readable in each.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture, frame, launch, opened, shown } from "./page.mjs";

let browser;
let file;
before(async () => {
  browser = await launch();
  file = fixture("demo");
});
after(() => browser.close());

for (const width of [360, 768, 1280, 1920]) {
  test(`${width} pixels need no horizontal scrolling`, async () => {
    const { page, close } = await opened(browser, file, {
      viewport: { width, height: 740 },
    });
    for (const id of ["breakdown", "matrix", "timeline", "overlap"]) await shown(page, id);
    for (const summary of await page.locator("details.table > summary").all()) await summary.click();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    const widest = await page.evaluate(() =>
      Math.max(
        ...[...document.querySelectorAll(".chart canvas")].map((c) => c.getBoundingClientRect().right),
      ),
    );
    assert.ok(widest <= width, `a chart ends at ${widest}`);
    await close();
  });
}

test("a table that is wider than its box says how many columns are outside, and shades that edge", async () => {
  const { page, close } = await opened(browser, file, { viewport: { width: 390, height: 740 } });
  const figure = await shown(page, "timeline");
  await figure.locator("details.table > summary").click();
  await page.waitForFunction(() =>
    /^\d+ more columns? →/.test(document.querySelector('figure[data-figure="timeline"] .more').textContent),
  );
  assert.match(await figure.locator(".more").last().textContent(), /^\d+ more rows ↓$/);
  const shades = await figure.locator(".scroll").evaluate((box) => getComputedStyle(box).backgroundImage);
  assert.equal(shades.match(/linear-gradient/g).length, 4);
  await figure.locator(".scroll").evaluate((box) => box.scrollTo(box.scrollWidth, box.scrollHeight));
  await page.waitForFunction(() =>
    [...document.querySelectorAll('figure[data-figure="timeline"] .more')].every((hint) => hint.hidden),
  );
  for (const hint of await figure.locator(".more").all()) assert.ok(await hint.isHidden());
  await close();
});

test("a table that fits says nothing", async () => {
  const { page, close } = await opened(browser, file, { viewport: { width: 1280, height: 740 } });
  const figure = await shown(page, "breakdown");
  await figure.locator("details.table > summary").click();
  await frame(page);
  for (const hint of await figure.locator(".more").all()) assert.ok(await hint.isHidden());
  await close();
});

test("a chart follows the width of the window", async () => {
  const { page, close } = await opened(browser, file);
  await shown(page, "breakdown");
  await page.setViewportSize({ width: 500, height: 800 });
  await page.waitForFunction(
    () => document.querySelector('figure[data-figure="breakdown"] canvas').clientWidth < 500,
  );
  await close();
});

test("the contents stay beside the report on a wide screen", async () => {
  const { page, close } = await opened(browser, file, {
    viewport: { width: 1400, height: 800 },
  });
  await page.evaluate(() => scrollTo(0, 2000));
  const box = await page.locator("nav.toc").boundingBox();
  assert.ok(box.y > -10 && box.y < 100, `at ${box.y}`);
  const main = await page.locator("main").boundingBox();
  assert.ok(box.x + box.width <= main.x);
  await close();
});

test("print has drawings in light colours instead of canvases and buttons, also from a dark page", async () => {
  const { page, said, close } = await opened(browser, file, {
    colorScheme: "dark",
  });
  const pdf = await page.pdf({ format: "A4" });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  assert.ok(pdf.length > 40_000, `${pdf.length} bytes`);
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const printed = await page.evaluate(() => ({
    figures: document.querySelectorAll("figure[data-figure]").length,
    drawings: [...document.querySelectorAll("svg.for-print")].filter(
      (svg) => svg.getBoundingClientRect().height > 100,
    ).length,
    paths: Math.min(
      ...[...document.querySelectorAll("svg.for-print")].map((svg) => svg.querySelectorAll("path").length),
    ),
    blue: document.querySelectorAll('svg.for-print [fill="#196fd3"]').length,
    canvases: [...document.querySelectorAll(".chart")].filter((chart) => chart.offsetHeight > 0).length,
    buttons: [...document.querySelectorAll("button")].filter((button) => button.offsetHeight > 0).length,
    background: getComputedStyle(document.body).backgroundColor,
  }));
  assert.equal(printed.drawings, printed.figures);
  assert.ok(printed.paths > 3);
  assert.ok(printed.blue > 3, "the light palette's blue");
  assert.equal(printed.canvases, 0);
  assert.equal(printed.buttons, 0);
  assert.equal(printed.background, "rgb(255, 255, 255)");
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator("svg.for-print").count(), 0);
  assert.deepEqual(said, []);
  await close();
});

test("without a script the tables are there and the charts take no room", async () => {
  const { page, close } = await opened(browser, file, {
    javaScriptEnabled: false,
  });
  const charts = await page.locator(".chart").all();
  assert.ok(charts.length > 5);
  for (const chart of charts) assert.ok(await chart.isHidden());
  await page.locator("details.table > summary").first().click();
  assert.ok(await page.getByRole("rowheader", { name: "all_gather tp x4" }).first().isVisible());
  await close();
});

test("every control has a name and is reached by the keyboard, with a visible ring", async () => {
  const { page, close } = await opened(browser, file);
  const nameless = await page.evaluate(
    () =>
      [...document.querySelectorAll("button, select")].filter(
        (control) => !(control.textContent.trim() || control.getAttribute("aria-label")),
      ).length,
  );
  assert.equal(nameless, 0);
  assert.equal(await page.locator(".chart:not([role=img]), .chart:not([aria-label])").count(), 0);
  const seen = new Set();
  for (let press = 0; press < 60; press++) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const at = document.activeElement;
      const ring =
        getComputedStyle(at).outlineStyle !== "none" &&
        Number.parseFloat(getComputedStyle(at).outlineWidth) >= 1;
      return {
        what: at.dataset.save ?? at.dataset.choice ?? at.dataset.switch ?? at.className,
        ring,
        tag: at.tagName,
      };
    });
    seen.add(focus.what);
    if (focus.tag === "BUTTON") assert.ok(focus.ring, `${focus.what} has no focus ring`);
  }
  for (const what of ["theme", "svg", "png", "measure:calls", "apart"])
    assert.ok(seen.has(what), `${what} was not reached`);
  await close();
});
