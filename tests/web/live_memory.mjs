// node live_memory.mjs [MINUTES]: the page of `serve` beside a job of two ranks, for 3 minutes or so many: what it keeps of
// its heap after garbage collection, and its nodes, each minute. Run it through run.sh, with COMMLENS_BINARY and COMMLENS_WEB
// as for the tests. Exit 1: the heap grew by 20 MB or more from the first minute to the last.
import { spawn } from "node:child_process";
import path from "node:path";
import { directory, launch } from "./page.mjs";

const mostGrowth = 20e6;
const minutes = Number(process.argv[2] ?? 3);
if (!(minutes >= 2)) {
  console.error("usage: run.sh node live_memory.mjs [MINUTES], 2 or more");
  process.exit(2);
}
const commlens = process.env.COMMLENS_BINARY;
const trace = path.join(directory, "live-job");
const children = [];

function started(command, words) {
  const child = spawn(command, words, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" },
  });
  child.stdout.on("data", () => {}); // a pipe that nobody reads is full after a while
  children.push(child);
  return child;
}

const ended = (child) =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    else child.on("exit", resolve);
    child.kill("SIGTERM");
  });

/** The address of a server that follows the job. */
function served() {
  const server = started(commlens, ["serve", trace, "--listen", "127.0.0.1:0"]);
  return new Promise((resolve, reject) => {
    server.stdout.on("data", (text) => {
      const found = /http:\/\/\S+/.exec(String(text));
      if (found) resolve(found[0]);
    });
    server.on("exit", (code) => reject(new Error(`serve ended with ${code}`)));
  });
}

/** What is left after garbage collection: bytes of the heap, nodes of the document and in all. */
async function left(page, session) {
  for (let times = 0; times < 3; times++) await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
  const shown = await page.evaluate(() => document.querySelectorAll("*").length);
  const polls = await page.locator("main").evaluate((main) => Number(main.dataset.polls));
  return { usedSize, nodes, jsEventListeners, shown, polls };
}

async function watched(browser) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(await served());
  await page.locator('figure[data-figure="rates"][data-chart="drawn"]').waitFor({ timeout: 120_000 });
  await page.locator('figure[data-figure="ranks"]').scrollIntoViewIfNeeded(); // all charts are drawn then
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  console.log("minute  looks  heap MB  elements  nodes of the browser  listeners");
  const heaps = [];
  for (let minute = 1; minute <= minutes; minute++) {
    await new Promise((resolve) => setTimeout(resolve, 60_000));
    const now = await left(page, session);
    heaps.push(now.usedSize);
    const heap = (now.usedSize / 1e6).toFixed(2);
    console.log(`${minute}  ${now.polls}  ${heap}  ${now.shown}  ${now.nodes}  ${now.jsEventListeners}`);
  }
  return heaps[heaps.length - 1] - heaps[0];
}

const browser = await launch();
try {
  started("mpirun.openmpi", [
    ..."--oversubscribe -n 2".split(" "),
    commlens,
    ..."train 19M --dp 2 --layers 1 --hidden 64 --heads 2 --seq 32 --vocab 256 --micro-batch 1".split(" "),
    ..."--iterations 1000000 --transport mpi -o".split(" "),
    trace,
  ]);
  const growth = await watched(browser);
  console.log(`growth after the first minute: ${(growth / 1e6).toFixed(2)} MB`);
  process.exitCode = growth < mostGrowth ? 0 : 1;
} finally {
  for (const child of children.reverse()) await ended(child);
  await browser.close();
}
