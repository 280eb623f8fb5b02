#include "commlens/app/reproduce/closed_forms.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/comm/volume.hpp"

namespace commlens::study {
namespace {

Bytes in_16_bit(std::int64_t elements) { return Elements{elements} * DType::bf16; }

}  // namespace

// n = tokens, k = top_k, h = hidden, L = layers.
ClosedForm expert_exchanges(const ExpertLayers& layers) {
  const auto routed = static_cast<double>(layers.tokens * layers.top_k * layers.hidden);
  const Bytes message = in_16_bit(std::llround(routed * layers.capacity));
  ClosedForm form{"balanced",
                  layers.exchanges == 4 ? "4 L n k h (ep-1)/ep" : "6 L n k h (ep-1)/ep",
                  "arXiv 2006.16668, 2101.03961",
                  {CommKind::all_to_all},
                  message,
                  layers.exchanges * layers.layers,
                  {},
                  {}};
  if (layers.capacity != 1) {
    form.formula = "4 L C n k h (ep-1)/ep";
  }
  form.message = message * form.calls;
  form.wire = wire_bytes(CommKind::all_to_all, form.message, layers.ep);
  return form;
}

double expected_nodes(std::int64_t experts, std::int64_t nodes, std::int64_t top_k) {
  // C(E - E/N, k) / C(E, k) as a product of k factors.
  const std::int64_t elsewhere = experts - experts / nodes;
  double none = 1;
  for (std::int64_t chosen = 0; chosen < top_k; ++chosen) {
    none *= static_cast<double>(std::max<std::int64_t>(elsewhere - chosen, 0)) /
            static_cast<double>(experts - chosen);
  }
  return static_cast<double>(nodes) * (1 - none);
}

// b = 1, s = sequence, h = hidden, h_kv = kv_hidden, c = cp, L = layers.
ClosedForm context_ring(const ContextLayers& layers) {
  const Bytes part = in_16_bit(2 * layers.sequence / layers.cp * layers.kv_hidden);
  // Forward c-1 steps with keys and values, backward as many with their gradients as well.
  const std::int64_t steps = layers.layers * (layers.cp - 1);
  return {"ring",    "6 L b s h_kv (c-1)/c", "arXiv 2310.01889", {CommKind::send}, part,
          2 * steps, part * (3 * steps),     part * (3 * steps)};
}

ClosedForm context_gather(const ContextLayers& layers, bool gathers_again) {
  const Bytes whole = in_16_bit(layers.sequence * layers.kv_hidden);
  const std::int64_t calls = layers.layers * (gathers_again ? 6 : 4);  // of keys, of values
  return {gathers_again ? "gathered twice" : "gathered",
          gathers_again ? "6 L b s h_kv (c-1)/c" : "4 L b s h_kv (c-1)/c",
          "arXiv 2407.21783, section 3.3.2",
          {CommKind::all_gather, CommKind::reduce_scatter},
          whole,
          calls,
          whole * calls,
          wire_bytes(CommKind::all_gather, whole * calls, layers.cp)};
}

ClosedForm context_ulysses(const ContextLayers& layers) {
  const std::int64_t tokens = layers.sequence / layers.cp;
  const Bytes forward = in_16_bit((2 * layers.hidden + 2 * layers.kv_hidden) * tokens) * layers.layers;
  return {"Ulysses",
          "2 L (2h + 2h_kv) b (s/c) (c-1)/c",
          "arXiv 2309.14509",
          {CommKind::all_to_all},
          in_16_bit(layers.kv_hidden * tokens),
          8 * layers.layers,
          forward * 2,
          wire_bytes(CommKind::all_to_all, forward * 2, layers.cp)};
}

ClosedForm hybrid_inside(Elements parameters, std::int64_t shards) {
  const Bytes three = parameters * DType::bf16 * 3;
  return {"inside a group",
          "3 P (g-1)/g",
          "arXiv 1910.02054, 2205.00119",
          {CommKind::all_gather, CommKind::reduce_scatter},
          {},
          3,
          three,
          wire_bytes(CommKind::all_gather, three, shards)};
}

ClosedForm hybrid_between(Elements parameters, std::int64_t shards, std::int64_t replicas) {
  const Bytes shard = parameters * DType::bf16;
  const Bytes part{shard.value / shards};
  return {"between replicas",
          "2 (P/g) (r-1)/r",
          "arXiv 1910.02054, 2205.00119",
          {CommKind::all_reduce},
          {},
          1,
          part,
          wire_bytes(CommKind::all_reduce, part, replicas)};
}

}  // namespace commlens::study
