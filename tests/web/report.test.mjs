// What `commlens report` itself writes, opened: a trace of 64 ranks and 100,000 calls, a prediction, two sides compared.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { calls } from "./calls.mjs";
import { directory, heap, launch, opened, painted, shown, sizeOf } from "./page.mjs";

const megabyte = 1e6;
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

function report(name, ...inputs) {
  const file = path.join(directory, `${name}.html`);
  execFileSync(process.env.COMMLENS_BINARY, ["report", ...inputs, "-o", file], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  return file;
}

function recorded(name, shape) {
  const file = path.join(directory, `${name}.jsonl`);
  writeFileSync(file, calls(shape));
  return file;
}

/** Draws every chart of a page, and checks that each paints something and nothing is said or asked. */
async function allDrawn({ page, said, asked }) {
  const ids = await page
    .locator("figure[data-figure]")
    .evaluateAll((figures) => figures.map((figure) => figure.dataset.figure));
  for (const id of ids) {
    await shown(page, id);
    assert.ok((await painted(page, id)).covered > 500, `${id} is blank`);
  }
  assert.equal(await page.locator("[role=alert]").count(), 0);
  assert.deepEqual(said, []);
  assert.deepEqual(asked, []);
  return ids;
}

test("64 ranks and 100,000 calls: below 3 MB, below 60 MB of heap, every chart drawn", async () => {
  const trace = recorded("big", {
    ranks: 64,
    iterations: 3,
    callsPerIteration: 521,
  }); // 100,032 calls
  const file = report("big", trace);
  console.log(`file: ${(sizeOf(file) / megabyte).toFixed(2)} MB`);
  assert.ok(sizeOf(file) < 3 * megabyte, `${sizeOf(file)} bytes`);
  const started = performance.now();
  const view = await opened(browser, file);
  console.log(`open to ready: ${(performance.now() - started).toFixed(0)} ms`);
  const ids = await allDrawn(view);
  for (const id of ["breakdown", "sizes", "matrix", "timeline"])
    assert.ok(ids.includes(id), `${id} is missing in ${ids}`);
  const rows = await view.page.evaluate(() => {
    const { figures } = JSON.parse(document.getElementById("commlens-data").textContent);
    return figures.timeline.columns[0].rows;
  });
  assert.ok(rows >= 100_032, `the timeline has ${rows} intervals`);
  const used = await heap(view.page);
  console.log(`heap: ${(used / megabyte).toFixed(1)} MB`);
  assert.ok(used < 60 * megabyte, `${used} bytes`);
  await view.close();
});

test("the bytes of the page are those of the trace", async () => {
  // 8 ranks, 2 iterations of 10 calls: 4 all_gathers of 1 MiB, 4 reduce_scatters of 1 MiB, 2 all_reduces of 4 bytes.
  const view = await opened(
    browser,
    report("small", recorded("small", { ranks: 8, iterations: 2, callsPerIteration: 10 })),
  );
  const sums = await view.page.evaluate(async () => {
    const { figures } = JSON.parse(document.getElementById("commlens-data").textContent);
    const cells = [...document.querySelectorAll('figure[data-figure="breakdown"] tbody tr')].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    const at = figures.breakdown.columns.findIndex((column) => column.name === "message_bytes_all_ranks");
    return cells.map((row) => [row[0], Number(row[at].replaceAll(",", ""))]);
  });
  const sumOf = (op) =>
    sums.filter(([call]) => call.startsWith(op)).reduce((sum, [, bytes]) => sum + bytes, 0);
  assert.equal(sumOf("all_gather"), 8 * 2 * 4 * 1048576);
  assert.equal(sumOf("reduce_scatter"), 8 * 2 * 4 * 1048576);
  assert.equal(sumOf("all_reduce"), 8 * 2 * 2 * 4);
  await view.close();
});

test("a name that holds markup stays text", async () => {
  const hostile = `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'">`;
  const view = await opened(
    browser,
    report(
      "hostile",
      recorded("hostile", {
        ranks: 2,
        iterations: 2,
        callsPerIteration: 10,
        other: hostile,
      }),
    ),
  );
  await allDrawn(view);
  assert.notEqual(await view.page.title(), "owned");
  assert.equal(await view.page.locator("img").count(), 0);
  assert.equal(await view.page.locator("script").count(), 2, "the data and the page's own");
  // Names of calls are cut after 60 columns.
  const shown = hostile.slice(0, 40);
  assert.ok((await view.page.locator("td, th").allTextContents()).some((text) => text.includes(shown)));
  await view.close();
});

test("a prediction, which has no times, has its charts", async () => {
  const view = await opened(browser, report("predicted", "19M", "--ranks", "8", "--zero", "2"));
  const ids = await allDrawn(view);
  assert.ok(ids.includes("breakdown") && !ids.includes("timeline"), `${ids}`);
  await view.close();
});

for (const [what, shape] of [
  ["one call", { ranks: 1, iterations: 1, callsPerIteration: 1 }],
  ["one rank", { ranks: 1, iterations: 3, callsPerIteration: 10 }],
  ["200 ranks", { ranks: 200, iterations: 2, callsPerIteration: 5 }],
]) {
  test(`a trace of ${what} has a sensible page, on a phone too`, async () => {
    const name = what.replace(" ", "-");
    const view = await opened(browser, report(name, recorded(name, shape)), {
      viewport: { width: 360, height: 740 },
    });
    await allDrawn(view);
    assert.equal(await view.page.evaluate(() => document.documentElement.scrollWidth), 360);
    await view.close();
  });
}
