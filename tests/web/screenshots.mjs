// node screenshots.mjs DIRECTORY [PAPER]: the first screen of three reports, on a desktop and on a phone, as docs/report.md
// shows them; with PAPER, which `commlens reproduce -o PAPER` has written, those of docs/reproduce.md instead. Run it through run.sh, with COMMLENS_BINARY and COMMLENS_WEB as for the tests.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { directory, launch, opened } from "./page.mjs";
import { palettePng } from "./palette_png.mjs";

const [, , target, paper] = process.argv;
if (!target) {
  console.error("usage: run.sh node screenshots.mjs DIRECTORY [PAPER]");
  process.exit(2);
}

const browser = await launch("--disable-lcd-text");

/** The window of a page, from the element `from` on. */
async function shot(file, name, settings, from) {
  const { page, close } = await opened(browser, file, settings);
  if (from) await page.locator(from).evaluate((element) => scrollTo(0, element.offsetTop - 80));
  await page.waitForTimeout(1000);
  writeFileSync(path.join(target, name), palettePng(await page.screenshot()));
  await close();
}

if (paper) {
  const page = (name) => path.resolve(paper, name);
  const high = (height) => ({ viewport: { width: 1200, height } });
  await shot(page("index.html"), "reproduce-desktop.png", high(1800));
  await shot(page("index.html"), "reproduce-phone.png", { viewport: { width: 390, height: 1700 } });
  await shot(page("index.html"), "reproduce-today.png", high(1700), 'h2[id="2024-against-today"]');
  await shot(page("jobs-frontier.html"), "reproduce-jobs.png", high(1700));
  await browser.close();
  process.exit(0);
}

const job = path.join(directory, "small.yaml");
writeFileSync(
  job,
  `framework: commlens
ranks: 4
precision: fp32
model: {name: small, family: gpt, layers: 4, hidden: 256, heads: 4, sequence: 128, vocab: 1024}
layout: {pipeline: 1, tensor: 2}
micro_batch: 2
micro_batches: 1
`,
);

function commlens(...words) {
  execFileSync(process.env.COMMLENS_BINARY, words, {
    cwd: directory,
    stdio: ["ignore", "ignore", "inherit"],
  });
}

commlens("train", job, "--zero", "1", "--iterations", "4", "-o", path.join(directory, "recorded"));
const reports = {
  prediction: ["1.3B", "--ranks", "16", "--tp", "2", "--zero", "1", "--micro-batches", "4"],
  comparison: ["small.yaml", "recorded", "--zero", "0"],
  recorded: ["recorded"],
};
const screens = {
  desktop: { viewport: { width: 1280, height: 800 } },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1.5, isMobile: true },
};

for (const [name, words] of Object.entries(reports)) {
  const file = path.join(directory, `${name}.html`);
  commlens("report", ...words, "-o", file);
  for (const [screen, settings] of Object.entries(screens)) {
    await shot(file, `report-${name}-${screen}.png`, settings);
  }
}
await browser.close();
