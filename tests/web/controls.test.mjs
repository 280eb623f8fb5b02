// Buttons, lists, keys and the pointer do what they say.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture, frame, has, launch, opened, painted, picture, shown } from "./page.mjs";

let browser;
let view;
before(async () => {
  browser = await launch();
  view = await opened(browser, fixture("demo"));
});
after(async () => {
  assert.deepEqual(view.said, []);
  await browser.close();
});

/** A control changes the picture, and the same control or `back` restores it. */
async function changes(id, control, back = control) {
  const figure = await shown(view.page, id);
  const start = await picture(view.page, id);
  await figure.locator(control).click();
  assert.notEqual(await picture(view.page, id), start, `${control} changes nothing`);
  await figure.locator(back).click();
  assert.equal(await picture(view.page, id), start, `${back} does not restore the picture`);
}

const measure = (name) => `[data-choice="measure:${name}"]`;

test("the measure of bars can be chosen", () =>
  changes("breakdown", measure("calls"), measure("message_bytes")));
test("stacked bars can stand side by side", () => changes("breakdown", "[data-switch=apart]"));
test("sizes toggle to bytes", () => changes("sizes", measure("message_bytes"), measure("calls")));
test("sizes toggle to time", () => changes("sizes", measure("time_ns"), measure("calls")));
test("sizes have a log scale", () => changes("sizes", "[data-switch=log]"));
test("the cumulative line can be taken away", () => changes("sizes", "[data-switch=cumulative]"));
test("lines toggle their measure", () => changes("iterations", measure("time_ns"), measure("message_bytes")));
test("the matrix has log and linear colours", () => changes("matrix", "[data-switch=log]"));
test("the timeline is coloured by axis", () =>
  changes("timeline", '[data-choice="colour:axis"]', '[data-choice="colour:op"]'));
test("the timeline has a row per axis", () => changes("timeline", "[data-switch=lanes]"));
test("the timeline zooms and shows all again", () =>
  changes("timeline", "[data-zoom=in]", "[data-zoom=all]"));
test("the matrix zooms and shows all again", () => changes("matrix", "[data-zoom=in]", "[data-zoom=all]"));

test("a pressed button says so", async () => {
  const figure = await shown(view.page, "breakdown");
  const button = figure.locator(measure("calls"));
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  await button.click();
  assert.equal(await button.getAttribute("aria-pressed"), "true");
  assert.equal(await figure.locator(measure("message_bytes")).getAttribute("aria-pressed"), "false");
  await figure.locator(measure("message_bytes")).click();
});

test("an entry of the legend hides its series", async () => {
  const figure = await shown(view.page, "breakdown");
  const entry = figure.locator(".legend button", { hasText: "backward" });
  await entry.click();
  await frame(view.page);
  assert.ok(!has((await painted(view.page, "breakdown")).colours, "#e3b719"));
  await entry.click();
  await frame(view.page);
  assert.ok(has((await painted(view.page, "breakdown")).colours, "#e3b719"));
});

test("the iteration of the timeline can be chosen, and stepped through", async () => {
  const figure = await shown(view.page, "timeline");
  const list = figure.locator("select[data-choice=iteration]");
  assert.equal(await list.inputValue(), "2", "the last iteration is shown first");
  const last = await picture(view.page, "timeline");
  await list.selectOption("0");
  const first = await picture(view.page, "timeline");
  assert.notEqual(first, last);
  await figure.getByLabel("Iteration after").click();
  assert.equal(await list.inputValue(), "1");
  assert.notEqual(await picture(view.page, "timeline"), first);
  await list.selectOption("2");
  assert.equal(await picture(view.page, "timeline"), last);
});

test("keys zoom and move the timeline", async () => {
  const { page } = view;
  const figure = await shown(page, "timeline");
  const all = await picture(page, "timeline");
  await figure.locator(".chart").focus();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  const zoomed = await picture(page, "timeline");
  assert.notEqual(zoomed, all);
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await picture(page, "timeline"), zoomed);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await picture(page, "timeline"), zoomed);
  await page.keyboard.press("0");
  assert.equal(await picture(page, "timeline"), all);
});

/** The middle of a chart on the screen. */
async function middleOf(id) {
  const figure = await shown(view.page, id);
  await figure.locator(".chart").scrollIntoViewIfNeeded();
  const box = await figure.locator(".chart").boundingBox();
  return [box.x + box.width / 2, box.y + box.height / 2];
}

test("the wheel zooms with Ctrl, and scrolls the page without", async () => {
  const { page } = view;
  const [x, y] = await middleOf("timeline");
  const all = await picture(page, "timeline");
  await page.mouse.move(x, y);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await page.waitForFunction(
    () => !document.querySelector('figure[data-figure="timeline"] [data-zoom=all]').disabled,
  );
  const zoomed = await picture(page, "timeline");
  assert.notEqual(zoomed, all);
  await page.mouse.wheel(0, -50);
  await page.waitForTimeout(100);
  assert.equal(await picture(page, "timeline"), zoomed);
  await page.locator('figure[data-figure="timeline"] [data-zoom=all]').click();
});

test("dragging moves a zoomed timeline", async () => {
  const { page } = view;
  const figure = await shown(page, "timeline");
  await figure.locator("[data-zoom=in]").click();
  const [x, y] = await middleOf("timeline");
  const before = await picture(page, "timeline");
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x - 120, y, { steps: 5 });
  await page.mouse.up();
  const after = await picture(page, "timeline");
  assert.notEqual(after, before);
  await page.mouse.move(x - 300, y);
  assert.equal(await picture(page, "timeline"), after, "a move after the button was let go does nothing");
  await figure.locator("[data-zoom=all]").click();
});

test("the pointer over a bar shows its numbers with units", async () => {
  const { page } = view;
  const figure = await shown(page, "breakdown");
  const box = await figure.locator(".chart").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 12 + ((box.height - 62) / 7) * 1.5); // the second of seven rows
  const tip = page.locator(".tip");
  await tip.waitFor();
  const text = await tip.textContent();
  assert.match(text, /^all_gather tp x4forward[\d.]+ GiB \([\d,]+ bytes\)/);
  assert.match(text, /total/);
  await page.mouse.move(2, 2);
  assert.ok(await tip.isHidden());
});

test("the pointer over the timeline shows the call there", async () => {
  const { page } = view;
  const figure = await shown(page, "timeline");
  const box = await figure.locator(".chart").boundingBox();
  const tip = page.locator(".tip");
  for (let x = box.x + box.width / 2; ; x += 3) {
    assert.ok(x < box.x + box.width, "no call in the right half");
    await page.mouse.move(x, box.y + box.height / 2);
    if ((await tip.isVisible()) && /duration/.test(await tip.textContent())) break;
  }
  assert.match(await tip.textContent(), /whererank \d, iteration 2/);
  assert.match(await tip.textContent(), /duration[\d.]+ (µs|ms)/);
});

test("the switch turns the page dark, and the page remembers", async () => {
  const { page } = view;
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await shown(page, "breakdown");
  const light = await picture(page, "breakdown");
  assert.equal(await background(), "rgb(255, 255, 255)");
  await page.locator("button.theme").click();
  assert.equal(await background(), "rgb(18, 23, 30)");
  assert.notEqual(await picture(page, "breakdown"), light);
  await page.reload();
  await page.waitForSelector("html[data-report=ready]");
  assert.equal(await background(), "rgb(18, 23, 30)");
  await page.locator("button.theme").click();
  assert.equal(await background(), "rgb(255, 255, 255)");
});

test("a dark system gets a dark page", async () => {
  const dark = await opened(browser, fixture("demo"), { colorScheme: "dark" });
  await shown(dark.page, "breakdown");
  assert.equal(
    await dark.page.evaluate(() => getComputedStyle(document.body).backgroundColor),
    "rgb(18, 23, 30)",
  );
  assert.ok(has((await painted(dark.page, "breakdown")).colours, "#5883bd"));
  await dark.close();
});
