// A report in a real Chromium, opened from disk. COMMLENS_WEB names the build's copy of web/ with its node_modules.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const web = process.env.COMMLENS_WEB;
export const requireOfWeb = createRequire(path.join(web, "package.json"));
const { chromium } = requireOfWeb("playwright-core");
/** Milliseconds: a machine that builds at the same time is slow, not wrong. */
const patience = 120_000;
const fixtureScript = fileURLToPath(new URL("../../web/test/fixture.mjs", import.meta.url));

export const directory = mkdtempSync(path.join(os.tmpdir(), "commlens-web-"));
process.on("exit", () => rmSync(directory, { recursive: true, force: true }));

/** The path of a fixture page (web/test/fixture.mjs). */
export function fixture(kind) {
  const file = path.join(directory, `${kind}.html`);
  execFileSync(process.execPath, [path.join(web, "test", "fixture.mjs"), kind, file], { stdio: "inherit" });
  return file;
}

export const sizeOf = (file) => statSync(file).size;

// A home of its own: another Chromium on this machine, however stuck, holds no lock of this one.
export const launch = (...more) =>
  chromium.launch({
    executablePath: process.env.COMMLENS_CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-breakpad", ...more],
    env: {
      ...process.env,
      HOME: directory,
      XDG_CONFIG_HOME: directory,
      XDG_CACHE_HOME: directory,
    },
    timeout: patience,
  });

/**
 * Opens a file and waits until it is ready. `said` collects errors and warnings of the console and of the page, `asked`
 * every request but the file itself (blobs and data of the page are none).
 */
export async function opened(browser, file, settings = {}) {
  const { javaScriptEnabled = true, ...others } = settings;
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    javaScriptEnabled,
    ...others,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const said = [];
  const asked = [];
  page.on("console", (message) => {
    // This suite's own reading of the canvas is not the page's doing.
    const ours = message.text().includes("willReadFrequently");
    if (["error", "warning"].includes(message.type()) && !ours) said.push(message.text());
  });
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && request.url() !== `file://${file}`) asked.push(request.url());
  });
  await page.goto(`file://${file}`);
  if (javaScriptEnabled) await page.waitForSelector("html[data-report=ready]");
  return { page, said, asked, close: () => context.close() };
}

/** Scrolls to a figure and waits for its chart. */
export async function shown(page, id) {
  const figure = page.locator(`figure[data-figure="${id}"]`);
  await figure.scrollIntoViewIfNeeded();
  await page.waitForSelector(`figure[data-figure="${id}"][data-chart=drawn]`);
  await frame(page);
  return figure;
}

/** The next picture of the page is painted. */
export const frame = (page) =>
  page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** What a chart's canvas shows: how many pixels are painted, and how many colours cover 30 pixels or more. */
export const painted = (page, id) =>
  page.evaluate((figure) => {
    const canvas = document.querySelector(`figure[data-figure="${figure}"] canvas`);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Map();
    let covered = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 0) continue;
      covered++;
      if (data[at + 3] < 255) continue;
      const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
      pixels.set(colour, (pixels.get(colour) ?? 0) + 1);
    }
    const colours = [...pixels].filter(([, count]) => count >= 30).map(([colour]) => colour);
    return {
      covered,
      colours,
      share: covered / (canvas.width * canvas.height),
    };
  }, id);

/** The picture itself, to compare. */
export async function picture(page, id) {
  await frame(page);
  return page.evaluate(
    (figure) => document.querySelector(`figure[data-figure="${figure}"] canvas`).toDataURL(),
    id,
  );
}

export const has = (colours, hex) => colours.includes(Number.parseInt(hex.slice(1), 16));

/** What a click on a button of the figure saves. */
export async function saved(page, figure, format) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    figure.locator(`[data-save=${format}]`).click(),
  ]);
  const file = path.join(directory, download.suggestedFilename());
  await download.saveAs(file);
  return { name: download.suggestedFilename(), bytes: readFileSync(file) };
}

/** A module of web/src, bundled for Node. */
export async function moduleOf(name) {
  const out = path.join(directory, `${name}.mjs`);
  await requireOfWeb("esbuild").build({
    entryPoints: [path.join(web, "src", `${name}.ts`)],
    bundle: true,
    format: "esm",
    platform: "node",
    outfile: out,
    logLevel: "error",
  });
  return import(out);
}

/** Bytes that scripts hold after everything unused was collected. */
export async function heap(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  await session.send("HeapProfiler.collectGarbage");
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find((metric) => metric.name === "JSHeapUsedSize").value;
}
