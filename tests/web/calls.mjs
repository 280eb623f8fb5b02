// Recorded calls with times, as JSON Lines (docs/formats): made of a fixed seed.

function generator(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

const megabyte = 1 << 20;

/** One of the calls of an iteration: four tenths all_gathers, four tenths reduce_scatters, the rest tiny all_reduces. */
function call(share, ranks) {
  if (share < 0.4)
    return {
      op: "all_gather",
      phase: "forward",
      input_bytes: megabyte / ranks,
      output_bytes: megabyte,
    };
  if (share < 0.8)
    return {
      op: "reduce_scatter",
      phase: "backward",
      input_bytes: megabyte,
      output_bytes: megabyte / ranks,
    };
  return {
    op: "all_reduce",
    phase: "optimizer",
    input_bytes: 4,
    output_bytes: 4,
  };
}

/** `ranks` must divide a MiB into whole elements, or the gathers become all_reduces. `other`: a call of this name too. */
export function calls({ ranks, iterations, callsPerIteration, other }) {
  const random = generator(7);
  const group = Array.from({ length: ranks }, (_, rank) => rank);
  const even = megabyte % (4 * ranks) === 0;
  const lines = [];
  for (let rank = 0; rank < ranks; rank++) {
    let now = 1_000_000 + Math.floor(200_000 * random());
    for (let iteration = 0; iteration < iterations; iteration++) {
      for (let at = 0; at < callsPerIteration; at++) {
        const own = call(even ? at / callsPerIteration : 1, ranks);
        const duration = Math.floor(20_000 + own.output_bytes / 20 + 30_000 * random());
        lines.push({
          rank,
          iteration,
          ...own,
          dtype: "fp32",
          group,
          start_ns: now,
          duration_ns: duration,
        });
        now += duration + Math.floor(60_000 * random());
      }
      if (other) {
        const sizes = { input_bytes: 8, output_bytes: 8, dtype: "fp32" };
        lines.push({
          rank,
          iteration,
          op: "other",
          name: other,
          ...sizes,
          group,
          start_ns: now,
          duration_ns: 50_000,
        });
        now += 60_000;
      }
    }
  }
  return `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`;
}
