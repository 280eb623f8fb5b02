// The page of `serve` for the states of many nodes: what matters is on top, whichever rank it is of.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { directory, launch } from "./page.mjs";

const commlens = process.env.COMMLENS_BINARY;
const states = path.join(directory, "states");
const isPossible =
  spawnSync("test", ["-e", path.join(path.dirname(commlens), "libcommlens-live.so")]).status === 0;
const skip = isPossible ? false : "needs libmicrohttpd";

const nodes = 66;
const missing = 101; // of node 12
const none = { calls: 0, message_bytes: 0, wire_bytes: 0, time_ns: 0 };
const durations = { longest_ns: 0, counts: [] };

const call = (number) => ({
  ...{ part: "collective", channel: 0, number, op: "all_reduce", name: "MPI_Allreduce", dtype: "fp32" },
  ...{ input: 8, output: 8, match: "exact", rounding_bytes: 0, root: -1, iteration: -1, tag: "", site: "" },
  blocking: true,
});

/** All ranks but one are inside of the second all_reduce of all, for a minute. */
function rank(number, node) {
  const isThere = number !== missing;
  return {
    rank: number,
    process: { host: `n${node}`, pid: 1000 + number, start_ticks: 1, exe: "/job", job_id: "" },
    process_state: "sleeping",
    open_calls: isThere ? 1 : 0,
    iteration: -1,
    sums: { ...none, calls: 1, message_bytes: 32 },
    recent: none,
    in_calls_ns: 5,
    between_calls_ns: 7,
    still_ns: 60e9,
    late_share: null,
    lost_calls: 0,
    error: "",
    open_for_ns: isThere ? 60e9 : null,
    calls: {
      entered: isThere ? 2 : 1,
      entered_by_channel: [[0, isThere ? 2 : 1]],
      open: isThere ? [call(2)] : [],
      last: call(1),
      last_failed: false,
      begins_to_end: false,
      ended: false,
      unknown_calls: 0,
    },
  };
}

function write(number) {
  for (let node = 0; node < nodes; node++) {
    const state = {
      ...{
        schema: "commlens.node/1",
        node: `n${node}`,
        follower: "1:1",
        number,
        interval_ns: 5e9,
        trace: "many",
        job_id: "",
      },
      ...{ job: "running", generation: 1, error: "", producer: "", description: "", window_ns: 10e9 },
      steps: { iteration: -1, completed: 0, last_ns: null, median_ns: null, durations },
      lost: {},
      watcher: { polls: number, records: 8, unread_records: 0, unfollowed_calls: 0, busy_ns: 0 },
      alerts: [],
      channels: [{ kind: "collective", members: [[0, 8 * nodes, 1]], communicator: "0x0000000000000001" }],
      ranks: Array.from({ length: 8 }, (_, place) => rank(8 * node + place, node)),
      ops: [],
      differences: [],
    };
    const file = path.join(states, `n${node}.state.json`);
    fs.writeFileSync(`${file}.new`, JSON.stringify(state));
    fs.renameSync(`${file}.new`, file);
  }
}

let browser;
let server;
let again;
let address;
before(async () => {
  if (skip) return;
  fs.mkdirSync(states, { recursive: true });
  let number = 1;
  write(number);
  again = setInterval(() => write(++number), 2000);
  browser = await launch();
  server = spawn(commlens, ["serve", states, "--listen", "127.0.0.1:0", "--hang-after", "30s"]);
  address = await new Promise((resolve, reject) => {
    let told = "";
    server.stdout.on("data", (text) => {
      told += text;
      const found = /http:\/\/\S+\//.exec(told);
      if (found) resolve(found[0]);
    });
    server.on("exit", (code) => reject(new Error(`serve ended with ${code}`)));
  });
});
after(async () => {
  clearInterval(again);
  server?.kill("SIGTERM");
  await browser?.close();
});

test("of many ranks, nodes and those that matter are on top", { skip }, async () => {
  for (const width of [1280, 390]) {
    const page = await (await browser.newContext({ viewport: { width, height: 900 } })).newPage();
    page.setDefaultTimeout(120_000);
    const said = [];
    page.on("pageerror", (error) => said.push(error.message));
    await page.goto(address);
    await page.locator(".alerts p").waitFor();
    assert.match(await page.locator(".alerts p").textContent(), /^missing: rank 101; 527 ranks wait, /);
    assert.match(await page.locator("#subtitle").textContent(), /^running · 528 ranks · /);
    const table = (title) => page.locator(`[aria-label="${title}"] tbody tr`);
    assert.equal(await table("Nodes").count(), nodes);
    assert.equal(
      await table("Nodes")
        .first()
        .locator("td")
        .allTextContents()
        .then((cells) => cells.slice(0, 4).join("|")),
      "n12|1 computing, 7 stuck|101|8",
    );
    assert.equal(await table("Ranks").first().locator("td").first().textContent(), "101");
    assert.equal(await table("Ranks").count(), 256);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    assert.deepEqual(said, []);
    if (process.env.COMMLENS_SHOTS)
      await page.screenshot({ path: `${process.env.COMMLENS_SHOTS}/nodes-${width}.png` });
  }
});
