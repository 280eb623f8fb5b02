// The SVG files of `report --data`, which Duktape draws: well-formed, what another engine draws of the same figures, and
// what the page saves.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import vm from "node:vm";
import { calls } from "./calls.mjs";
import { directory, launch, opened, saved, shown, web } from "./page.mjs";

const module = path.join(path.dirname(process.env.COMMLENS_BINARY), "libcommlens-charts.so");
const skip = existsSync(module) ? false : "built without Duktape";
const figures = path.join(directory, "figures");
const drawn = {};
let browser;
let view;

before(async () => {
  const trace = path.join(directory, "calls.jsonl");
  const page = path.join(directory, "page.html");
  const shape = { ranks: 4, iterations: 3, callsPerIteration: 20 };
  writeFileSync(trace, calls({ ...shape, other: `<b>&"'</b>` }));
  const words = ["report", trace, "-o", page, "--data", figures];
  execFileSync(process.env.COMMLENS_BINARY, words, { stdio: ["ignore", "ignore", "inherit"] });
  for (const file of readdirSync(figures).filter((name) => name.endsWith(".svg")))
    drawn[file.slice(0, -4)] = readFileSync(path.join(figures, file), "utf8");
  browser = await launch();
  view = await opened(browser, page);
});
after(() => browser.close());

const stored = (id) => JSON.parse(readFileSync(path.join(figures, `${id}.json`), "utf8"));

/** What this engine draws of a figure's JSON. */
function drawnHere(id, width) {
  const { columns, ...head } = stored(id);
  const dictionaries = columns.map(({ values }) =>
    typeof values[0] === "string" ? [...new Set(values)] : undefined,
  );
  const numbers = columns.map(({ values }, at) =>
    Float64Array.from(values, (value) => dictionaries[at]?.indexOf(value) ?? value ?? Number.NaN),
  );
  const names = columns.map(({ name, title, unit }, at) => ({
    name,
    title,
    unit,
    dictionary: dictionaries[at],
  }));
  const context = vm.createContext({});
  vm.runInContext(readFileSync(path.join(web, "dist", "charts.js"), "utf8"), context);
  const settings = { width, theme: "light", chosen: [] };
  return context.commlensChart(
    JSON.stringify({ ...head, columns: names }),
    JSON.stringify(settings),
    numbers,
  );
}

/** Texts, and how many shapes have each fill, as a strict XML parser sees them. */
const parsed = (svg) =>
  view.page.evaluate((source) => {
    const parts = new DOMParser().parseFromString(source, "image/svg+xml");
    const fills = {};
    for (const { attributes } of parts.querySelectorAll("path, rect")) {
      const fill = attributes.fill?.value;
      fills[fill] = (fills[fill] ?? 0) + 1;
    }
    return {
      error: parts.querySelector("parsererror")?.textContent ?? "",
      root: parts.documentElement.nodeName,
      others: parts.querySelectorAll("script, style, image, foreignObject").length,
      texts: [...parts.querySelectorAll("text")].map((text) => text.textContent),
      width: Number(parts.documentElement.getAttribute("width")),
      fills,
    };
  }, svg);

test("each figure with a chart has its file", { skip }, () => {
  const { figures: all } = stored("index");
  const expected = all.filter(({ kind, rows }) => kind !== "table" && rows > 0).map(({ id }) => id);
  assert.deepEqual(Object.keys(drawn).sort(), expected.sort());
  assert.ok(expected.includes("timeline") && expected.includes("matrix"), `${expected}`);
});

test("each file is well-formed and has the title, at 680 pixels", { skip }, async () => {
  for (const [id, svg] of Object.entries(drawn)) {
    const { error, root, others, texts, width } = await parsed(svg);
    assert.deepEqual([id, error, root, others, width], [id, "", "svg", 0, 680]);
    assert.equal(texts[0], stored(id).title);
  }
});

test("each file is what another engine draws of the figure's JSON", { skip }, () => {
  for (const [id, svg] of Object.entries(drawn)) assert.equal(svg, drawnHere(id, 680), id);
});

test("what the page saves has the same texts and shapes", { skip }, async () => {
  for (const id of Object.keys(drawn)) {
    const figure = await shown(view.page, id);
    const { bytes } = await saved(view.page, figure, "svg");
    const ofPage = await parsed(bytes.toString("utf8"));
    assert.deepEqual(await parsed(drawnHere(id, ofPage.width)), ofPage, id);
  }
});
