// Save as SVG and PNG write files that other programs read.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inflateSync } from "node:zlib";
import { fixture, launch, opened, saved, shown } from "./page.mjs";

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

const figures = ["breakdown", "iterations", "sizes", "matrix", "timeline", "scatter"];

/** An SVG as a strict XML parser sees it. */
const parsed = (text) =>
  view.page.evaluate((source) => {
    const svg = new DOMParser().parseFromString(source, "image/svg+xml");
    return {
      error: svg.querySelector("parsererror")?.textContent ?? "",
      root: svg.documentElement.nodeName,
      paths: svg.querySelectorAll("path").length,
      scripts: svg.querySelectorAll("script, img, foreignObject").length,
      texts: [...svg.querySelectorAll("text")].map((text) => text.textContent),
    };
  }, text);

for (const id of figures) {
  test(`the SVG of ${id} is well-formed, has its title and draws something`, async () => {
    const figure = await shown(view.page, id);
    const { name, bytes } = await saved(view.page, figure, "svg");
    assert.equal(name, `${id}.svg`);
    const svg = await parsed(bytes.toString("utf8"));
    assert.equal(svg.error, "");
    assert.equal(svg.root, "svg");
    assert.equal(svg.scripts, 0);
    assert.ok(svg.paths > 3, `${svg.paths} paths`);
    const title = await view.page.locator(`h3#${id}`).textContent();
    assert.ok(svg.texts.includes(title), `no text "${title}" in ${svg.texts}`);
  });

  test(`the PNG of ${id} is a picture of its size`, async () => {
    const figure = await shown(view.page, id);
    const { name, bytes } = await saved(view.page, figure, "png");
    assert.equal(name, `${id}.png`);
    const { width, height, rows } = png(bytes);
    assert.ok(width >= 1440 && height >= 400, `${width} x ${height}: two pixels a point`);
    assert.ok(rows > 20, `${rows} different rows of pixels`);
  });
}

test("the SVG of a chart with a hostile name holds it as text", async () => {
  const figure = await shown(view.page, "timeline");
  const { bytes } = await saved(view.page, figure, "svg");
  const svg = await parsed(bytes.toString("utf8"));
  assert.ok(svg.texts.some((text) => text.startsWith("<script>")));
});

test("a saved chart shows what is on the page: the zoomed window", async () => {
  const figure = await shown(view.page, "timeline");
  const all = (await saved(view.page, figure, "svg")).bytes;
  await figure.locator("[data-zoom=in]").click();
  const part = (await saved(view.page, figure, "svg")).bytes;
  assert.notDeepEqual(part, all);
});

/** Size of a PNG of 8 bits a channel, and how many different rows it has. */
function png(bytes) {
  assert.equal(bytes.subarray(1, 4).toString(), "PNG");
  const parts = [];
  for (let at = 8; at < bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    const type = bytes.toString("latin1", at + 4, at + 8);
    if (type === "IDAT") parts.push(bytes.subarray(at + 8, at + 8 + bytes.readUInt32BE(at)));
  }
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  const pixels = inflateSync(Buffer.concat(parts));
  const stride = pixels.length / height;
  const rows = new Set();
  for (let row = 0; row < height; row++)
    rows.add(pixels.toString("latin1", row * stride, (row + 1) * stride));
  return { width, height, rows: rows.size };
}
