// What a reader meets first: the verdict and the configuration, then the filter, sorted tables, and the figures of
// times that overlap and of bandwidth.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { directory, frame, launch, opened, painted, picture, shown } from "./page.mjs";

const megabyte = 1 << 20;
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

function report(name, ...words) {
  const file = path.join(directory, `${name}.html`);
  execFileSync(process.env.COMMLENS_BINARY, ["report", ...words, "-o", file], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  return file;
}

function written(name, lines) {
  const file = path.join(directory, name);
  writeFileSync(file, `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
  return file;
}

/** The texts of an element of each that fits. */
const texts = (page, selector) => page.locator(selector).allTextContents();

/** The configuration, by setting. */
const facts = async (page) =>
  Object.fromEntries(
    await page
      .locator("#given ~ figure .facts > div")
      .evaluateAll((rows) =>
        rows.map((row) => [row.querySelector("dt").textContent, row.querySelector("dd").textContent]),
      ),
  );

/**
 * Four ranks, dp 2 x tp 2, two iterations. In each, rank r: an all_reduce of 1 MiB with its tensor rank from 0 to
 * 1 ms, and beside it from 0.5 to 1.5 ms a reduce_scatter of 2 MiB with its replica; initialisation has a broadcast.
 */
function recording() {
  const lines = [];
  for (let rank = 0; rank < 4; rank++) {
    const tensor = rank < 2 ? [0, 1] : [2, 3];
    const data = rank % 2 === 0 ? [0, 2] : [1, 3];
    const line = (iteration, at, op, group, input, output, more = {}) =>
      lines.push({
        rank,
        iteration,
        op,
        dtype: "fp32",
        input_bytes: input,
        output_bytes: output,
        group,
        start_ns: 10_000_000 * (iteration + 2) + at,
        duration_ns: 1_000_000,
        ...more,
      });
    line(-1, 0, "broadcast", [0, 1, 2, 3], 4096, 4096, { root: 0 });
    for (const iteration of [0, 1]) {
      line(iteration, 0, "all_reduce", tensor, megabyte, megabyte);
      line(iteration, 500_000, "reduce_scatter", data, 2 * megabyte, megabyte);
    }
  }
  return lines;
}

const ofTwo = `framework: deepspeed
ranks: 2
model: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocab: 256}
deepspeed: {train_micro_batch_size_per_gpu: 1, zero_optimization: {stage: 1}}
`;

test("a prediction says first what was predicted", async () => {
  const { page, close } = await opened(browser, report("first", "1.3B", "--ranks", "16", "--zero", "1"));
  const order = await page.evaluate(() => {
    return [...document.querySelectorAll(".verdict, nav, h3")]
      .filter((each) => each.tagName !== "NAV")
      .slice(0, 2)
      .map((each) => each.id || each.className);
  });
  assert.deepEqual(order, ["verdict", "given"]);
  assert.match((await texts(page, ".verdict p"))[0], /^16 ranks make [\d,]+ calls in an iteration and put /);
  const said = await facts(page);
  assert.equal(said.parameters, "1,414,647,808"); // of the paper's model, counted by tensors
  assert.equal(said.layout, "16 ranks = dp 16 × tp 1 × pp 1, cp 1, ep 1");
  assert.equal(said.sharding, "ZeRO-1");
  assert.equal(said.sequence, "2,048 tokens");
  assert.equal(said.batch, "global 64 (131,072 tokens) = micro-batch 4 × 1 micro-batch × 16 replicas");
  assert.match(said["element type"], /^fp16/);
  assert.match(said.memory, /^[\d.]+ GiB, every rank alike/);
  // 96 b s L h^2 (1 + s/6h + V/16Lh) of 4 sequences with full recomputation: 97.42e12, and 16 times that.
  assert.match(said.computing, /^97\.42 TFLOP of a rank \(mean\), 1559 of all/);
  await close();
});

test("the memory of a pipeline says of which stage", async () => {
  const { page, close } = await opened(browser, report("stages", "1.3B", "--ranks", "8", "--pp", "4"));
  assert.match((await facts(page)).memory, / on ranks of pipeline stage \d, the fullest; .* of stage \d/);
  await close();
});

test("an iteration is apart from initialisation", async () => {
  const { page, close } = await opened(browser, report("apart", written("apart.jsonl", recording())));
  const rows = await page
    .locator("#totals ~ figure tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.deepEqual(
    rows.map((row) => row.slice(0, 3)),
    [
      ["one iteration, mean of 2 iterations (0 to 1)", "8", "12,582,912"], // 4 x (1 + 2) MiB
      ["initialisation", "4", "16,384"],
      ["everything shown", "20", "25,182,208"],
    ],
  );
  await close();
});

test("two equal sides say so, and axes have the names of the configuration", async () => {
  const file = path.join(directory, "two.yaml");
  const calls = path.join(directory, "two.jsonl");
  writeFileSync(file, ofTwo);
  execFileSync(process.env.COMMLENS_BINARY, ["predict", file, "--calls", calls], { stdio: "ignore" });
  const { page, close } = await opened(browser, report("two", file, calls));
  assert.match(await page.locator(".verdict.good p").first().textContent(), /^Equal: (\d+) of \1 calls/);
  const labels = await texts(page, 'figure[data-figure="breakdown"] tbody th');
  assert.ok(
    labels.some((label) => / dp x2$/.test(label)),
    `no axis in ${labels}`,
  );
  await close();
});

test("of three inputs each is charted, with its configuration", async () => {
  const file = report("three", "19M", "125M", "1.3B", "--ranks", "8");
  const { page, said, close } = await opened(browser, file);
  for (const id of ["runs", "runs-by-op"]) {
    await shown(page, id);
    assert.ok((await painted(page, id)).covered > 500, `${id} is blank`);
  }
  assert.deepEqual(await texts(page, 'figure[data-figure="runs-by-op"] .legend li'), ["19M", "125M", "1.3B"]);
  assert.deepEqual((await texts(page, "#given ~ figure thead th")).slice(1), ["19M", "125M", "1.3B"]);
  assert.match((await texts(page, ".verdict p"))[0], /an iteration of 1\.3B puts most on the wire/);
  assert.deepEqual(said, []);
  await close();
});

test("the filter leaves one op, or one axis, in tables and charts, and lets all come back", async () => {
  const groups = path.join(directory, "groups.yaml");
  writeFileSync(
    groups,
    `framework: commlens
ranks: 4
precision: fp32
model: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocab: 256}
layout: {pipeline: 1, tensor: 2}
micro_batch: 1
micro_batches: 1
`,
  );
  const { page, said, close } = await opened(
    browser,
    report("filter", groups, written("filter.jsonl", recording())),
  );
  const rows = () =>
    page
      .locator('figure[data-figure="breakdown"] tbody tr:not([hidden]) th')
      .evaluateAll((all) => all.map((cell) => cell.textContent));
  await shown(page, "breakdown");
  const whole = await picture(page, "breakdown");
  assert.deepEqual((await rows()).sort(), ["all_reduce tp x2", "reduce_scatter dp x2"]);
  await page.locator("select[data-filter=op]").selectOption("reduce_scatter");
  await shown(page, "breakdown");
  assert.deepEqual(await rows(), ["reduce_scatter dp x2"]);
  assert.notEqual(await picture(page, "breakdown"), whole);
  assert.match(
    await page.locator('figure[data-figure="breakdown"] .filtered').textContent(),
    /reduce_scatter/,
  );
  assert.match(
    await page.locator('figure[data-figure="matrix"] .filtered').textContent(),
    /all ops and axes/,
  );
  await page.locator("select[data-filter=op]").selectOption("");
  await page.locator("select[data-filter=axis]").selectOption("tp");
  assert.deepEqual(await rows(), ["all_reduce tp x2"]);
  await page.locator("button[data-filter=reset]").click();
  await shown(page, "breakdown");
  await page.evaluate(() => document.activeElement.blur());
  assert.equal(await picture(page, "breakdown"), whole);
  assert.equal(await page.locator(".filtered").count(), 0);
  assert.equal((await rows()).length, 2);
  assert.deepEqual(said, []);
  await close();
});

test("a click on a heading sorts, by the exact values, and so does the keyboard", async () => {
  const { page, close } = await opened(browser, report("sorted", written("sorted.jsonl", recording())));
  const figure = page.locator('figure[data-figure="busy"]');
  await figure.locator("summary").click();
  const heading = figure.locator("thead th", { hasText: "time, all ranks" });
  const times = () =>
    figure.locator("tbody tr").evaluateAll((rows) => rows.map((row) => Number(row.cells[3].dataset.value)));
  const before = await times();
  assert.equal(await heading.getAttribute("aria-sort"), null);
  await heading.locator("button").click();
  assert.equal(await heading.getAttribute("aria-sort"), "descending");
  assert.deepEqual(
    await times(),
    [...before].sort((a, b) => b - a),
  );
  await heading.locator("button").focus();
  await page.keyboard.press("Enter");
  assert.equal(await heading.getAttribute("aria-sort"), "ascending");
  assert.deepEqual(
    await times(),
    [...before].sort((a, b) => a - b),
  );
  await page.keyboard.press("Space");
  assert.equal(await heading.getAttribute("aria-sort"), null);
  assert.deepEqual(await times(), before);
  await close();
});

test("times that overlap are counted once, beside their sum", async () => {
  const { page, close } = await opened(browser, report("busy", written("busy.jsonl", recording())));
  const rows = await page
    .locator('figure[data-figure="busy"] tbody tr')
    .evaluateAll((all) =>
      all.map((row) => [
        row.cells[0].textContent,
        row.cells[1].textContent,
        Number(row.cells[3].dataset.value),
      ]),
    );
  // 4 ranks x 2 iterations x (1 ms + 1 ms), of which half a millisecond each is at the same time.
  assert.deepEqual(rows.slice(-2), [
    ["everything", "added up", 16_000_000],
    ["everything", "overlaps counted once", 12_000_000],
  ]);
  await shown(page, "busy");
  assert.ok((await painted(page, "busy")).covered > 500);
  await close();
});

test("bus bandwidth stands against message size", async () => {
  const { page, close } = await opened(browser, report("bandwidth", written("bandwidth.jsonl", recording())));
  const rows = await page
    .locator('figure[data-figure="bandwidth"] tbody tr')
    .evaluateAll((all) =>
      all.map((row) => [row.dataset.op, row.cells[1].textContent, Number(row.cells[4].dataset.value)]),
    );
  // 1 MiB in 1 ms x 2 (n-1)/n = 1; 2 MiB in 1 ms x (n-1)/n = 1/2.
  assert.deepEqual(rows, [
    ["all_reduce", "1,048,576", 1_048_576_000],
    ["reduce_scatter", "2,097,152", 1_048_576_000],
  ]);
  await shown(page, "bandwidth");
  assert.ok((await painted(page, "bandwidth")).covered > 200);
  await close();
});

test("the timeline has a row per axis at first, and says which", async () => {
  const groups = path.join(directory, "groups.yaml");
  const { page, close } = await opened(browser, report("lanes", groups, written("lanes.jsonl", recording())));
  const figure = await shown(page, "timeline");
  assert.equal(await figure.locator("[data-switch=lanes]").getAttribute("aria-pressed"), "true");
  assert.ok(
    (await texts(page, 'figure[data-figure="timeline"] .note')).some((note) => /from the top: /.test(note)),
  );
  await close();
});

test("names that turn the text around, or never end, are replaced and cut everywhere", async () => {
  const name = `\u202Eevil\u2066${"long".repeat(2500)}`;
  const lines = recording().map((line) => (line.op === "all_reduce" ? { ...line, op: "other", name } : line));
  const calls = written("names.jsonl", lines);
  const file = report("names", calls, "--title", `\u202Eall ${"x".repeat(300)}`);
  const { page, said, close } = await opened(browser, file, { viewport: { width: 360, height: 740 } });
  const ids = await page
    .locator("figure[data-figure]")
    .evaluateAll((figures) => figures.map((figure) => figure.dataset.figure));
  for (const id of ids) await shown(page, id);
  for (const summary of await page.locator("details.table > summary").all()) await summary.click();
  await frame(page);
  const found = await page.evaluate(() => ({
    turning: /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/.test(document.documentElement.outerHTML),
    names: [...document.querySelectorAll("td, th, .legend li, option, dd")]
      .map((each) => each.textContent)
      .filter((text) => text.includes("evil")),
    width: document.documentElement.scrollWidth,
  }));
  assert.equal(found.turning, false);
  assert.ok(found.names.length > 3, "the names are in tables and legends");
  for (const name of found.names) assert.ok(name.length <= 100, name);
  assert.equal(found.width, 360);
  assert.deepEqual(said, []);
  await close();
  for (const words of [
    ["summary", calls],
    ["summary", calls, "--by", "size"],
    ["compare", calls, calls],
  ]) {
    const text = execFileSync(process.env.COMMLENS_BINARY, words, {
      encoding: "utf8",
      env: { ...process.env, COLUMNS: "100" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    assert.doesNotMatch(text, /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/, words[0]);
    const longest = Math.max(...text.split("\n").map((line) => line.length));
    assert.ok(longest <= 240, `${words}: a line of ${longest} letters`);
  }
});

for (const width of [360, 1280]) {
  test(`nothing of a page is wider than ${width} pixels, nor than paper`, async () => {
    const pages = [
      report("w-predicted", "1.3B", "--ranks", "16", "--tp", "2", "--pp", "2", "--zero", "1"),
      report("w-three", "19M", "125M", "1.3B", "--ranks", "8"),
      report("w-recorded", written("w.jsonl", recording())),
    ];
    for (const file of pages) {
      const { page, close } = await opened(browser, file, { viewport: { width, height: 740 } });
      for (const summary of await page.locator("details.table > summary").all()) await summary.click();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, file);
      await page.emulateMedia({ media: "print" });
      await page.setViewportSize({ width: 688, height: 1000 }); // A4 without its margins
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      const printed = await page.evaluate(() => ({
        width: document.documentElement.scrollWidth,
        loose: [...document.querySelectorAll("h2, h3, figcaption")].filter(
          (each) => getComputedStyle(each).breakAfter === "auto",
        ).length,
      }));
      assert.ok(printed.width <= 688, `${file}: ${printed.width} on paper`);
      assert.equal(printed.loose, 0, "a heading may stand apart from its chart");
      await close();
    }
  });
}

test("what simulate has written says first the time, its interval, MFU and what is exposed", async () => {
  const json = path.join(directory, "run.json");
  const trace = path.join(directory, "run-trace");
  const job = ["125M", "--ranks", "8", "--zero", "1", "--machine", "dgx_h100"];
  execFileSync(
    process.env.COMMLENS_BINARY,
    ["simulate", ...job, "--format", "json", "-o", json, "--trace", trace],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  const { page, close } = await opened(browser, report("simulated", json));
  const said = await texts(page, ".verdict p");
  assert.match(
    said[0],
    /^An iteration takes [\d.]+ m?s \([\d.]+ m?s to [\d.]+ m?s\) \(90\s% interval\), [\d.]+\s% MFU/,
  );
  assert.match(said[1], /Times of kernels: .+; of calls: /);
  await close();
  const other = await opened(browser, report("simulated-trace", trace));
  assert.match(
    (await texts(other.page, ".verdict p"))[0],
    /^An iteration takes [\d.]+ m?s by the simulation/,
  );
  assert.match(
    (await facts(other.page)).job,
    /an iteration takes .+ \(90\s% interval .+\), .+ MFU; kernels: /,
  );
  await other.close();
});

test("what search has found says first the fastest layout", async () => {
  const json = path.join(directory, "found.json");
  execFileSync(
    process.env.COMMLENS_BINARY,
    [
      "search",
      "1.3B",
      "--machine",
      "dgx_h100",
      "--gpus",
      "16",
      "--global-batch",
      "64",
      "--format",
      "json",
      "-o",
      json,
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  const { page, close } = await opened(browser, report("found", json));
  assert.match(
    (await texts(page, ".verdict p"))[0],
    /^Fastest of [\d,]+ layouts that fit: .+ \(90\s% interval\), .+ MFU/,
  );
  assert.match((await facts(page)).machine, /^16 devices of dgx_h100/);
  await close();
});
