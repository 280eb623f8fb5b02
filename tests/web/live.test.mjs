// The page of `serve`, beside a real job: two ranks over MPI that train, of which one is stopped for a while.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import path from "node:path";
import { after, before, test } from "node:test";
import { directory, launch } from "./page.mjs";

const commlens = process.env.COMMLENS_BINARY;
const trace = path.join(directory, "live-job");
const has = (command) => spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;
const modules = path.dirname(commlens);
const isPossible =
  has("mpirun.openmpi") &&
  ["live", "engine", "mpi-openmpi"].every(
    (name) => spawnSync("test", ["-e", path.join(modules, `libcommlens-${name}.so`)]).status === 0,
  );
const skip = isPossible ? false : "needs Open MPI, LibTorch and libmicrohttpd";

let browser;
const children = [];

/** A process that is ended with the tests. */
function started(command, words) {
  const child = spawn(command, words, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" },
  });
  // A pipe that nobody reads is full after a while, and whoever writes to it waits for ever.
  child.stdout.on("data", () => {});
  child.stderr.on("data", () => {});
  children.push(child);
  return child;
}

/** Starts `serve` and gives it with its address. */
async function served(port = 0, more = []) {
  const words = [
    "serve",
    trace,
    "--listen",
    `127.0.0.1:${port}`,
    "--interval",
    "200ms",
    "--hang-after",
    "2s",
    ...more,
  ];
  const child = started(commlens, words);
  const address = await new Promise((resolve, reject) => {
    child.stdout.on("data", (text) => {
      const found = /http:\/\/\S+/.exec(String(text));
      if (found) resolve(found[0]);
    });
    child.on("exit", (code) => reject(new Error(`serve ended with ${code}`)));
  });
  return { child, address };
}

const ended = (child) =>
  new Promise((resolve) => {
    if (child.exitCode !== null) resolve();
    else child.on("exit", resolve);
    child.kill("SIGTERM");
  });

/** The page, what it says on the console, and every request that leaves its origin. */
async function opened(address, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...settings });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const said = [];
  const elsewhere = [];
  page.on("console", (message) => {
    // A server that is away is what one test is about.
    if (["error", "warning"].includes(message.type()) && !/ERR_|willReadFrequently/.test(message.text()))
      said.push(message.text());
  });
  page.on("pageerror", (error) => said.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith(address)) elsewhere.push(request.url());
  });
  await page.goto(address);
  return { page, said, elsewhere, close: () => context.close() };
}

const polls = (page) => page.locator("main").evaluate((main) => Number(main.dataset.polls ?? "0"));
const drawn = (page, id) =>
  page.locator(`figure[data-figure="${id}"] canvas`).evaluate((canvas) => canvas.toDataURL());

/** Until `look` gives something true. */
async function until(look, what) {
  for (let tries = 0; tries < 600; tries++) {
    if (await look()) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert.fail(`never: ${what}`);
}

const training = [
  "train",
  ..."19M --dp 2 --layers 1 --hidden 64 --heads 2 --seq 32 --vocab 256 --micro-batch 1".split(" "),
];

let server;
before(async () => {
  if (skip) return;
  browser = await launch();
  started("mpirun.openmpi", [
    ..."--oversubscribe -n 2".split(" "),
    commlens,
    ...training,
    ..."--iterations 1000000 --transport mpi -o".split(" "),
    trace,
  ]);
  server = await served();
});
after(async () => {
  for (const child of children.reverse()) await ended(child);
  await browser?.close();
});

test("charts move with the job, and nothing is asked of another place", { skip }, async () => {
  const { page, said, elsewhere, close } = await opened(server.address);
  await page.locator('figure[data-figure="rates"][data-chart="drawn"]').waitFor();
  await page.locator('figure[data-figure="steps"][data-chart="drawn"]').waitFor();
  await page.locator('figure[data-figure="ranks"]').scrollIntoViewIfNeeded();
  await page.locator('figure[data-figure="ranks"][data-chart="drawn"]').waitFor();
  const before = {
    polls: await polls(page),
    rates: await drawn(page, "rates"),
    ranks: await drawn(page, "ranks"),
  };
  await until(async () => (await polls(page)) > before.polls + 3, "four more looks");
  await until(async () => (await drawn(page, "rates")) !== before.rates, "another chart of rates");
  await until(async () => (await drawn(page, "ranks")) !== before.ranks, "another chart of ranks");
  assert.match(await page.locator("#subtitle").textContent(), /^running · 2 ranks · iteration \d+/);
  assert.equal(await page.locator('[aria-label="Ranks"] tbody tr').count(), 2);
  assert.deepEqual(said, []);
  assert.deepEqual(elsewhere, []);
  await close();
});

test("a phone in the dark has the same page, no wider than itself", { skip }, async () => {
  const { page, said, close } = await opened(server.address, {
    viewport: { width: 390, height: 844 },
    colorScheme: "dark",
  });
  await page.locator('figure[data-figure="rates"][data-chart="drawn"]').waitFor();
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  assert.deepEqual(said, []);
  await close();
});

test("an alert names the rank that was stopped, and goes when it goes on", { skip }, async () => {
  const { page, said, close } = await opened(server.address);
  await page.locator('figure[data-figure="rates"][data-chart="drawn"]').waitFor();
  const ranks = await (await fetch(`${server.address}api/v1/ranks`)).json();
  const { pid } = ranks.find(({ rank }) => rank === 1);
  process.kill(pid, "SIGSTOP");
  try {
    await page.locator(".alerts p").waitFor();
    assert.match(await page.locator(".alerts p").textContent(), /^missing: rank 1; 1 rank waits, /);
    assert.match(await page.title(), /^! live-job/);
    assert.match(await page.locator("tr.bad").textContent(), /^1/);
    assert.equal(await page.locator("tr.bad td").nth(1).textContent(), "stopped");
    assert.match(await (await fetch(`${server.address}metrics`)).text(), /commlens_culprit\{[^}]*rank="1"/);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  await page.locator(".alerts").waitFor({ state: "hidden" });
  assert.match(await page.locator(".log").textContent(), /recovered/);
  assert.deepEqual(said, []);
  await close();
});

test(
  "a line says how the job stands beside its configuration, another beside an earlier recording",
  { skip },
  async () => {
    const earlier = path.join(directory, "live-earlier");
    const recorded = spawnSync(commlens, [...training, "--iterations", "30", "-o", earlier]);
    assert.equal(recorded.status, 0, String(recorded.stderr));
    const plain = await opened(server.address);
    await plain.page.locator('figure[data-figure="rates"][data-chart="drawn"]').waitFor();
    assert.equal(await plain.page.locator(".baseline").isVisible(), false);
    await plain.close();
    const beside = await served(0, ["--baseline", earlier, "--predict", ...training.slice(1)]);
    const { page, said, close } = await opened(beside.address);
    await page.locator(".baseline").waitFor();
    assert.match(
      await page.locator(".baseline").textContent(),
      /^times (not )?compared with \S*live-earlier/,
    );
    await page.locator(".prediction").waitFor();
    assert.match(await page.locator(".prediction").textContent(), /compared/);
    assert.deepEqual(said, []);
    await close();
    await ended(beside.child);
  },
);

test("the page comes back when the server does", { skip }, async () => {
  const { page, close } = await opened(server.address);
  await page.locator('figure[data-figure="rates"][data-chart="drawn"]').waitFor();
  await ended(server.child);
  await page.locator(':root[data-connection="waiting"]').waitFor();
  server = await served(new URL(server.address).port);
  await page.locator(':root[data-connection="connected"]').waitFor();
  const before = await polls(page);
  await until(async () => (await polls(page)) > before + 2, "new looks");
  await close();
});
