// The figures of the fixture pages. Numbers come from a generator of fixed seed.
import { deflateSync } from "node:zlib";

const arrays = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f64: Float64Array };

function pack(array) {
  return deflateSync(Buffer.from(array.buffer, array.byteOffset, array.byteLength), { level: 9 }).toString(
    "base64",
  );
}

export function numbers(name, title, unit, type, values) {
  const array =
    type === "f64delta"
      ? Float64Array.from(values, (v, at) => (at ? v - values[at - 1] : v))
      : arrays[type].from(values);
  return {
    name,
    title,
    unit,
    type,
    rows: values.length,
    encoding: "deflate-base64",
    data: pack(array),
    cells: values,
  };
}

export function texts(name, title, values) {
  const dictionary = [...new Set(values)];
  const codes = new Map(dictionary.map((text, at) => [text, at]));
  const cells = values.map((text) => codes.get(text));
  const column = {
    name,
    title,
    unit: "",
    type: "text",
    rows: values.length,
    dictionary,
    encoding: "deflate-base64",
  };
  return { ...column, data: pack(Uint32Array.from(cells)), cells };
}

/** Numbers in [0, 1) of a fixed seed (mulberry32). */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const kinds = [
  "all_reduce",
  "all_gather",
  "reduce_scatter",
  "all_to_all",
  "broadcast",
  "send",
  "recv",
  "barrier",
];
const hostile = `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`;

function breakdown(categories) {
  const random = generator(1);
  const rows = categories.flatMap((call) =>
    ["forward", "backward", "optimizer"].map((phase) => ({ call, phase })),
  );
  const bytes = rows.map(() => Math.floor(2 ** (18 + 14 * random())));
  return {
    kind: "bars",
    title: "Breakdown",
    caption: "Calls and message bytes per op, group and phase, summed over all ranks.",
    options: {
      category: "call",
      series: "phase",
      value: "message_bytes",
      stacked: true,
      toggles: ["message_bytes", "calls"],
    },
    columns: [
      texts(
        "call",
        "op and group",
        rows.map((row) => row.call),
      ),
      texts(
        "phase",
        "phase",
        rows.map((row) => row.phase),
      ),
      numbers("message_bytes", "message bytes", "bytes", "f64", bytes),
      numbers(
        "calls",
        "calls",
        "",
        "u32",
        rows.map(() => Math.floor(2000 * random())),
      ),
    ],
  };
}

function iterations(count) {
  const random = generator(2);
  const rows = Array.from({ length: count }, (_, at) => at).flatMap((at) =>
    kinds.slice(0, 3).map((call) => ({ at, call })),
  );
  return {
    kind: "lines",
    title: "Iterations",
    caption: "Message bytes per iteration and op.",
    options: {
      x: "iteration",
      series: "call",
      value: "message_bytes",
      toggles: ["message_bytes", "time_ns"],
    },
    columns: [
      numbers(
        "iteration",
        "iteration",
        "",
        "i32",
        rows.map((row) => row.at - 1),
      ),
      texts(
        "call",
        "op",
        rows.map((row) => row.call),
      ),
      numbers(
        "message_bytes",
        "message bytes",
        "bytes",
        "f64",
        rows.map((row) => 5e8 * (1 + kinds.indexOf(row.call)) + 1e8 * random()),
      ),
      numbers(
        "time_ns",
        "time",
        "ns",
        "f64",
        rows.map(() => 2e8 + 1e8 * random()),
      ),
    ],
  };
}

function sizes(series) {
  const random = generator(3);
  const classes = [0, ...[3, 9, 10, 12, 16, 17, 20, 24, 25].map((bits) => 2 ** bits)];
  const rows = classes.flatMap((lower) =>
    (series ? kinds.slice(0, 3) : [""]).map((call) => ({ lower, call })),
  );
  const calls = rows.map(() => Math.floor(1 + 10 ** (4 * random())));
  const columns = [
    numbers(
      "lower_bytes",
      "from",
      "bytes",
      "u32",
      rows.map((row) => row.lower),
    ),
    numbers("calls", "calls", "", "u32", calls),
    numbers(
      "message_bytes",
      "message bytes",
      "bytes",
      "f64",
      rows.map((row, at) => 1.4 * row.lower * calls[at]),
    ),
    numbers(
      "time_ns",
      "time in calls",
      "ns",
      "f64",
      rows.map((row, at) => (8000 + row.lower / 20) * calls[at]),
    ),
  ];
  if (series)
    columns.push(
      texts(
        "call",
        "op",
        rows.map((row) => row.call),
      ),
    );
  return {
    kind: "histogram",
    title: series ? "Message sizes by op" : "Message sizes",
    caption: "Message bytes of one call, in classes of powers of two.",
    options: {
      lower: "lower_bytes",
      toggles: ["calls", "message_bytes", "time_ns"],
      small_limit: 65536,
      ...(series ? { series: "call" } : {}),
    },
    columns,
  };
}

function matrix(ranks) {
  const cells = [];
  for (let from = 0; from < ranks; from++) {
    cells.push([from, from - (from % 8) + ((from + 1) % 8), 3.2e10]);
    cells.push([from, (from + 8) % ranks, 4e8]);
    if (from % 16 < 8) cells.push([from, (from + 16) % ranks, 2.5e7]);
  }
  return {
    kind: "matrix",
    title: "Who sends to whom",
    caption: "Wire bytes that each rank sends to each other.",
    options: { source: "source", destination: "destination", value: "wire_bytes", ranks, block: 1 },
    columns: [
      numbers(
        "source",
        "from rank",
        "",
        "u16",
        cells.map((cell) => cell[0]),
      ),
      numbers(
        "destination",
        "to rank",
        "",
        "u16",
        cells.map((cell) => cell[1]),
      ),
      numbers(
        "wire_bytes",
        "wire bytes",
        "bytes",
        "f64",
        cells.map((cell) => cell[2]),
      ),
    ],
  };
}

function timeline(ranks, callsPerRank, steps) {
  const random = generator(4);
  const rows = { rank: [], iteration: [], start: [], duration: [], op: [], axis: [], bytes: [], kind: [] };
  const put = (rank, iteration, start, duration, op, axis, bytes) => {
    rows.rank.push(rank);
    rows.iteration.push(iteration);
    rows.start.push(Math.floor(start));
    rows.duration.push(Math.floor(duration));
    rows.op.push(op);
    rows.axis.push(axis);
    rows.bytes.push(bytes);
    rows.kind.push(op === "compute" ? "compute" : "comm");
  };
  for (let rank = 0; rank < ranks; rank++) {
    let now = 1e6 * random();
    for (let iteration = 0; iteration < steps; iteration++) {
      for (let call = 0; call < callsPerRank; call++) {
        const part = call / callsPerRank;
        const op =
          part < 0.4
            ? "all_gather"
            : part < 0.85
              ? call % 2
                ? "all_gather"
                : "reduce_scatter"
              : call % 5
                ? "all_reduce"
                : hostile;
        const length = 2e5 + 1.5e6 * random() ** 3;
        if (call % 4 === 0) put(rank, iteration, now, 2.5e6 + 5e5 * random(), "compute", "", 0);
        put(
          rank,
          iteration,
          now + 6e5,
          length,
          op,
          call % 7 ? "dp" : "tp",
          2 ** Math.floor(10 + 14 * random()),
        );
        now += 6e5 + length * (1 + 0.4 * random());
      }
      now += 3e6;
    }
  }
  const order = rows.start
    .map((_, at) => at)
    .sort((a, b) => rows.rank[a] - rows.rank[b] || rows.start[a] - rows.start[b]);
  const of = (name) => order.map((at) => rows[name][at]);
  return {
    kind: "timeline",
    title: "Timeline",
    caption: "When each rank was in a communication call and when it computed.",
    options: {
      iterations: Array.from({ length: steps }, (_, at) => at),
      ranks: Array.from({ length: ranks }, (_, at) => at),
    },
    columns: [
      numbers("rank", "rank", "", "u16", of("rank")),
      numbers("iteration", "iteration", "", "i32", of("iteration")),
      numbers("start_ns", "start", "ns", "f64delta", of("start")),
      numbers("duration_ns", "duration", "ns", "u32", of("duration")),
      texts("op", "op", of("op")),
      texts("axis", "axis", of("axis")),
      numbers("message_bytes", "message bytes", "bytes", "u32", of("bytes")),
      texts("kind", "kind", of("kind")),
    ],
  };
}

function scatter(count) {
  const random = generator(5);
  const predicted = Array.from({ length: count }, () => 10 ** (3 + 6 * random()));
  return {
    kind: "scatter",
    title: "Predicted against recorded",
    caption: "Time of each op; on the dashed line both are equal.",
    options: {
      x: "predicted_ns",
      y: "recorded_ns",
      series: "call",
      log_x: true,
      log_y: true,
      diagonal: true,
    },
    columns: [
      numbers("predicted_ns", "predicted", "ns", "f64", predicted),
      numbers(
        "recorded_ns",
        "recorded",
        "ns",
        "f64",
        predicted.map((time) => time * (0.8 + 0.6 * random())),
      ),
      texts(
        "call",
        "op",
        predicted.map((_, at) => kinds[at % 4]),
      ),
    ],
  };
}

function perRank(ranks) {
  const random = generator(6);
  const rows = Array.from({ length: ranks }, (_, rank) => rank).flatMap((rank) =>
    ["exposed", "overlapped"].map((part) => ({ rank, part })),
  );
  return {
    kind: "bars",
    title: "Exposed and overlapped",
    caption: "Communication time of each rank.",
    options: { category: "rank", series: "part", value: "time_ns", stacked: true, toggles: ["time_ns"] },
    columns: [
      numbers(
        "rank",
        "rank",
        "",
        "u16",
        rows.map((row) => row.rank),
      ),
      texts(
        "part",
        "part",
        rows.map((row) => row.part),
      ),
      numbers(
        "time_ns",
        "time",
        "ns",
        "f64",
        rows.map(() => 1e8 + 2e8 * random()),
      ),
    ],
  };
}

function perRankLines(ranks) {
  const random = generator(8);
  const rows = Array.from({ length: ranks }, (_, rank) => rank).flatMap((rank) =>
    [0, 1, 2, 3, 4, 5].map((at) => ({ rank, at })),
  );
  return {
    kind: "lines",
    title: "Pipeline bubble",
    caption: "Share of each iteration that a rank waits.",
    options: { x: "iteration", series: "rank", value: "bubble_share", toggles: ["bubble_share"] },
    columns: [
      numbers(
        "iteration",
        "iteration",
        "",
        "u8",
        rows.map((row) => row.at),
      ),
      numbers(
        "rank",
        "rank",
        "",
        "u16",
        rows.map((row) => row.rank),
      ),
      numbers(
        "bubble_share",
        "bubble",
        "share",
        "f64",
        rows.map((row) => 0.1 + (0.3 * row.rank) / ranks + 0.05 * random()),
      ),
    ],
  };
}

const sides = (figure) => ({ ...figure, title: "Two sides", options: { ...figure.options, stacked: false } });
const named = kinds.slice(0, 6).map((kind, at) => `${kind} ${["dp", "tp", "pp"][at % 3]} x${2 << at}`);

export function figuresOf(page) {
  switch (page) {
    case "demo":
      return {
        breakdown: breakdown([...named, hostile]),
        prediction: sides(breakdown(named.slice(0, 4))),
        iterations: iterations(12),
        sizes: sizes(false),
        "sizes-by-op": sizes(true),
        matrix: matrix(32),
        timeline: timeline(8, 90, 3),
        scatter: scatter(60),
        overlap: perRank(8),
        bubble: perRankLines(32),
      };
    case "big":
      return {
        breakdown: breakdown(named),
        sizes: sizes(true),
        matrix: matrix(512),
        timeline: timeline(64, 521, 3),
      };
    case "wide":
      return {
        breakdown: breakdown(Array.from({ length: 300 }, (_, at) => `${kinds[at % 8]} dp x${at + 2}`)),
        iterations: iterations(500),
        timeline: timeline(200, 30, 2),
        overlap: perRank(200),
      };
    case "broken": {
      const figure = sizes(false);
      figure.columns[1].data = figure.columns[1].data.slice(0, 20);
      return { sizes: figure, matrix: matrix(8) };
    }
    default:
      return null;
  }
}
