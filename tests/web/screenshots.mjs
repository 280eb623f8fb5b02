// node screenshots.mjs DIRECTORY: the first screen of three reports, on a desktop and on a phone, as docs/report.md
// shows them. Run it through run.sh, with COMMLENS_BINARY and COMMLENS_WEB as for the tests.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { directory, launch, opened } from "./page.mjs";
import { palettePng } from "./palette_png.mjs";

const target = process.argv[2];
if (!target) {
  console.error("usage: run.sh node screenshots.mjs DIRECTORY");
  process.exit(2);
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

const browser = await launch("--disable-lcd-text");
for (const [name, words] of Object.entries(reports)) {
  const file = path.join(directory, `${name}.html`);
  commlens("report", ...words, "-o", file);
  for (const [screen, settings] of Object.entries(screens)) {
    const { page, close } = await opened(browser, file, settings);
    await page.waitForTimeout(300);
    writeFileSync(path.join(target, `report-${name}-${screen}.png`), palettePng(await page.screenshot()));
    await close();
  }
}
await browser.close();
