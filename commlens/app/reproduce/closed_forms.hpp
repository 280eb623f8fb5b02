#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens::study {

/// What the literature says that one rank sends in an iteration of one micro-batch, in 16-bit elements.
struct ClosedForm {
  std::string name;  // "ring"
  std::string formula;
  std::string source;
  std::vector<CommKind> ops;  // that send it
  Bytes least;                // of its messages
  std::int64_t calls = 0;
  Bytes message;  // of all calls
  Bytes wire;
};

/// Expert parallelism: layers with experts, and what a rank routes in each.
struct ExpertLayers {
  std::int64_t layers = 0;
  std::int64_t tokens = 0;  // of a rank and micro-batch
  std::int64_t top_k = 0;
  std::int64_t hidden = 0;
  std::int64_t ep = 1;
  double capacity = 1;         // 1: as balanced routing has it
  std::int64_t exchanges = 4;  // dispatch and combine, forward and backward; 6 where forward is repeated
};
/// Tokens to their experts and back: n k h (ep-1)/ep elements an exchange. Sources: GShard (arXiv
/// 2006.16668), Switch (arXiv 2101.03961).
ClosedForm expert_exchanges(const ExpertLayers& layers);

/// How many of `nodes` nodes hold one of the `top_k` experts of a token, the mean over balanced routings of
/// `experts` experts: N (1 - C(E - E/N, k) / C(E, k)).
double expected_nodes(std::int64_t experts, std::int64_t nodes, std::int64_t top_k);

/// Context parallelism of attention.
struct ContextLayers {
  std::int64_t layers = 0;
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;     // of queries
  std::int64_t kv_hidden = 0;  // of keys, and of values
  std::int64_t cp = 1;
};
/// Keys and values go around forward, they and their gradients backward: 6 b s h_kv (c-1)/c. Source: Ring
/// attention (arXiv 2310.01889).
ClosedForm context_ring(const ContextLayers& layers);
/// Keys and values are gathered, their gradients scattered: 2 b s h_kv (c-1)/c each; `gathers_again`: and
/// gathered once more for the backward pass. Source: Llama 3 (arXiv 2407.21783, section 3.3.2).
ClosedForm context_gather(const ContextLayers& layers, bool gathers_again);
/// Queries, keys, values and outputs change from parts of the sequence to parts of the heads: (2h + 2h_kv) b
/// (s/c) (c-1)/c forward and as much backward. Source: DeepSpeed Ulysses (arXiv 2309.14509).
ClosedForm context_ulysses(const ContextLayers& layers);

/// Hybrid sharding of P parameters over groups of `shards` with `replicas` of them: 3 P (g-1)/g in the group,
/// and an all_reduce of P/g between the replicas. Sources: ZeRO (arXiv 1910.02054), MiCS (arXiv 2205.00119).
ClosedForm hybrid_inside(Elements parameters, std::int64_t shards);
ClosedForm hybrid_between(Elements parameters, std::int64_t shards, std::int64_t replicas);

}  // namespace commlens::study
