#pragma once

namespace commlens {

/// Framework-neutral volumes per rank, in elements on the wire of a bandwidth-optimal algorithm. P =
/// parameters, d, t = group sizes, M = micro-batches, all as doubles because sums may pass 2^63.

/// Share of a message that each rank sends to gather or scatter it among `ranks`.
constexpr double ring_share(double ranks) { return (ranks - 1.0) / ranks; }

/// One all_reduce of the gradients. Source: ZeRO, arXiv 1910.02054 §7.
constexpr double data_parallel_elements(double parameters, double ranks) {
  return 2.0 * parameters * ring_share(ranks);
}

/// Ideal ZeRO-1 and ZeRO-2: reduce_scatter of the gradients (stage 2: in each micro-batch), all_gather of the
/// updated parameters. Source: arXiv 1910.02054 §7.
constexpr double zero12_elements(double parameters, double ranks, double reductions) {
  return (reductions + 1.0) * parameters * ring_share(ranks);
}

/// ZeRO-3: parameters gathered forward and backward, gradients scattered, in each micro-batch.
constexpr double zero3_elements(double parameters, double ranks, double micro_batches) {
  return 3.0 * micro_batches * parameters * ring_share(ranks);
}

/// What ZeRO++ sends between nodes, in fp16-equivalent elements: forward gather in int8 (qwZ, 0.5 P), no
/// backward gather (hpZ), gradients in int4 (qgZ, 0.25 P); block scales and traffic within the node not
/// counted. Source: arXiv 2306.10209.
constexpr double zero_plus_plus_inter_node_elements(double parameters) { return 0.75 * parameters; }

}  // namespace commlens
