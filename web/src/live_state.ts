/** What `/events` tells of a job (docs/output.md, commlens.watch/1), and what the charts keep of it. */
import type { Column, Figure } from "./report_data";

export interface OpRow {
  op: string;
  name: string | null;
  axis: string;
  group_size: number;
  calls_all_ranks: number;
  message_bytes_all_ranks: number;
  message_bytes_per_s_all_ranks: number | null;
  bus_bandwidth_bytes_per_s: number | null;
  p50_ns: number | null;
  p99_ns: number | null;
}

export interface RankRow {
  rank: number;
  state: string;
  op: string | null;
  open_for_ns: number | null;
  message_bytes_per_s_per_rank: number | null;
  late_share: number | null;
  calls: number;
  between_calls_ns: number;
  in_calls_ns: number;
  host: string | null;
  pid: number | null;
  process: string;
}

export interface Alert {
  id: string;
  kind: string;
  sentence: string;
  verdict: string;
  culprit_ranks: number[];
  waiting_ranks: number;
  still_s: number;
}

/** What is known of a hang, beside its alert. */
export interface Hang {
  may_compute: boolean;
}

/** A is what the configuration says. */
export interface Prediction {
  a: string | null;
  error: string | null;
  iteration: number | null;
  iteration_count: number;
  equal_calls_all_ranks: number;
  resized_calls_all_ranks: number;
  calls_only_a_all_ranks: number;
  calls_only_b_all_ranks: number;
}

/** A is the earlier recording. */
export interface Baseline {
  a: string;
  error: string | null;
  tests: number;
  iteration_count: number;
  rows: { slower: boolean }[];
}

export interface State {
  trace: string;
  job_id: string;
  job: string;
  /** Why something cannot be read now, or which nodes are silent. */
  error: string | null;
  generation: number;
  iteration: number | null;
  step_s: number | null;
  step_median_s: number | null;
  calls_all_ranks: number;
  totals: { message_bytes_all_ranks: number };
  alerts: Alert[];
  hang: Hang | null;
  prediction: Prediction | null;
  baseline: Baseline | null;
  rows: OpRow[];
  rank_rows: RankRow[];
  lost: { reason: string; calls_all_ranks: number }[];
}

export const opName = (row: OpRow): string => (row.op === "other" && row.name ? row.name : row.op);

const numbers = (name: string, title: string, unit: string, values: number[]): Column => ({
  name,
  title,
  unit,
  values: Float64Array.from(values),
});

function texts(name: string, title: string, values: string[]): Column {
  const dictionary = [...new Set(values)];
  const at = new Map(dictionary.map((text, index) => [text, index]));
  return { name, title, unit: "", values: Uint32Array.from(values, (text) => at.get(text)!), dictionary };
}

interface Moment {
  at: number;
  bytes: Map<string, number>;
  step: number | null;
}

const mostMoments = 600;
const mostSeries = 7;

/** The last minutes of a job. */
export class History {
  private moments: Moment[] = [];
  private generation = -1;

  add(state: State, at: number): void {
    if (state.generation !== this.generation) this.moments = [];
    this.generation = state.generation;
    const bytes = new Map<string, number>();
    for (const row of state.rows) {
      const key = `${opName(row)} ${row.axis}`;
      bytes.set(key, (bytes.get(key) ?? 0) + (row.message_bytes_per_s_all_ranks ?? 0));
    }
    this.moments.push({ at, bytes, step: state.step_s });
    if (this.moments.length > mostMoments) this.moments.shift();
  }

  private get seconds(): number[] {
    const last = this.moments[this.moments.length - 1]?.at ?? 0;
    return this.moments.map(({ at }) => (at - last) / 1000);
  }

  /** The ops that sent most in this time by name; all others together. */
  rates(): Figure {
    const sums = new Map<string, number>();
    for (const { bytes } of this.moments)
      for (const [op, rate] of bytes) sums.set(op, (sums.get(op) ?? 0) + rate);
    const named = [...sums].sort((a, b) => b[1] - a[1]).slice(0, mostSeries);
    const names = new Set(named.map(([op]) => op));
    const times = this.seconds;
    const seconds: number[] = [];
    const rates: number[] = [];
    const ops: string[] = [];
    this.moments.forEach(({ bytes }, at) => {
      let others = 0;
      for (const [op, rate] of bytes) if (!names.has(op)) others += rate;
      const parts = [...names].map((op): [string, number] => [op, bytes.get(op) ?? 0]);
      if (sums.size > names.size) parts.push(["others", others]);
      for (const [op, rate] of parts) {
        seconds.push(times[at]!);
        rates.push(rate);
        ops.push(op);
      }
    });
    return {
      id: "rates",
      kind: "lines",
      title: "Message bytes a second",
      caption: "Of all ranks together, by op and axis; the last ten seconds are averaged.",
      options: { x: "s", y: "rate", series: "op" },
      columns: [
        numbers("s", "time before now", "s", seconds),
        numbers("rate", "message bytes a second", "bytes_per_second", rates),
        texts("op", "op", ops),
      ],
      rows: seconds.length,
    };
  }

  steps(): Figure {
    const times = this.seconds;
    const with_step = this.moments
      .map(({ step }, at) => ({ step, s: times[at]! }))
      .filter(({ step }) => step);
    return {
      id: "steps",
      kind: "lines",
      title: "Length of an iteration",
      caption: "By the marks of the program, of the rank that leads.",
      options: { x: "s", y: "step" },
      columns: [
        numbers(
          "s",
          "time before now",
          "s",
          with_step.map(({ s }) => s),
        ),
        numbers(
          "step",
          "length of an iteration",
          "s",
          with_step.map(({ step }) => step!),
        ),
      ],
      rows: with_step.length,
    };
  }
}

/** With more ranks they are counted by node, too, and those that matter come first. */
export const manyRanks = 512;

/** What a rank does, for people: a process that is stopped does nothing, wherever that was. */
export function shownState({ state, process }: RankRow): string {
  const isThere = ["computing", "in_call", "waiting"].includes(state);
  return isThere && process === "stopped" ? "stopped" : state;
}

const severities = [
  "stuck",
  "dead",
  "stopped",
  "unknown",
  "waiting",
  "in_call",
  "computing",
  "finished",
  "absent",
];

/** Those that others wait for, then by what is worst, then by lateness. */
export function worstFirst(rows: RankRow[], culprits: Set<number>): RankRow[] {
  const order = (row: RankRow) => (culprits.has(row.rank) ? -1 : severities.indexOf(shownState(row)));
  return [...rows].sort((a, b) => order(a) - order(b) || (b.late_share ?? -1) - (a.late_share ?? -1));
}

export interface NodeRow {
  host: string;
  ranks: number;
  states: Map<string, number>;
  culprits: number[];
  calls: number;
  rate: number;
}

/** The nodes of a job: those with culprits first, then those whose ranks are worst. */
export function nodesOf(rows: RankRow[], culprits: Set<number>): NodeRow[] {
  const nodes = new Map<string, NodeRow>();
  for (const row of worstFirst(rows, culprits)) {
    const host = row.host ?? "?";
    const node: NodeRow = nodes.get(host) ?? {
      host,
      ranks: 0,
      states: new Map(),
      culprits: [],
      calls: 0,
      rate: 0,
    };
    nodes.set(host, node);
    node.ranks++;
    const state = shownState(row);
    node.states.set(state, (node.states.get(state) ?? 0) + 1);
    if (culprits.has(row.rank)) node.culprits.push(row.rank);
    node.calls += row.calls;
    node.rate += row.message_bytes_per_s_per_rank ?? 0;
  }
  return [...nodes.values()];
}

const mostRanks = 64;

/** Where the time of the ranks goes; a rank that others wait for has most between its calls. */
export function rankTimes(state: State): Figure {
  const rows = state.rank_rows.slice(0, mostRanks);
  return {
    id: "ranks",
    kind: "bars",
    title: "Time of each rank",
    caption: "In calls, which waiting is part of, and between them, which is a rank's own work.",
    options: { category: "rank", value: "between", parts: ["between", "in"], stacked: true },
    columns: [
      texts(
        "rank",
        "rank",
        rows.map(({ rank }) => `rank ${rank}`),
      ),
      numbers(
        "between",
        "between calls",
        "ns",
        rows.map((row) => row.between_calls_ns),
      ),
      numbers(
        "in",
        "in calls",
        "ns",
        rows.map((row) => row.in_calls_ns),
      ),
    ],
    rows: rows.length,
  };
}
