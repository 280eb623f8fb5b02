#include "commlens/frameworks/megatron/context_calls.hpp"

#include <algorithm>

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

constexpr Literal k_engine{"d0067d0d"};
template <Literal Place>
constexpr const char* k_engine_source = k_source_text<"transformer-engine", k_engine, Place>;

const Rule k_ring{"megatron.context_ring",
                  k_engine_source<"pytorch/attention/dot_product_attention/context_parallel.py:1698">};
const Rule k_context_gather{"megatron.context_gather",
                            k_engine_source<"pytorch/attention/dot_product_attention/context_parallel.py "
                                            "AttnFuncWithCPAndKVAllGather">};
const Rule k_context_scatter{"megatron.context_reduce_scatter",
                             k_engine_source<"pytorch/attention/dot_product_attention/context_parallel.py "
                                             "AttnFuncWithCPAndKVAllGather">};
const Rule k_context_exchange{"megatron.context_all_to_all",
                              k_engine_source<"pytorch/attention/dot_product_attention/context_parallel.py "
                                              "AttnFuncWithCPAndQKVOA2A">};

}  // namespace

ContextCalls::ContextCalls(ProgramBuilder& out, const MegatronGroups& groups, const Job& job)
    : out_(out), groups_(groups), job_(job) {
  const ModelConfig& model = job.model;
  const LatentAttention& latent = model.latent;
  const std::int64_t positions = job.train.micro_batch * model.sequence / job.layout.cp;
  const std::int64_t tp = job.layout.tp;
  const std::int64_t heads = model.heads / tp;
  const std::int64_t groups_of_heads =
      latent.is_used() ? heads : std::max<std::int64_t>(model.kv_heads / tp, 1);
  const std::int64_t key_width = latent.is_used() ? latent.nope_dim + latent.rope_dim : model.head_dim;
  const std::int64_t value_width = latent.is_used() ? latent.value_dim : model.head_dim;
  queries_ = positions * heads * key_width;
  keys_ = positions * groups_of_heads * key_width;
  values_ = positions * groups_of_heads * value_width;
  outputs_ = positions * heads * value_width;
}

std::string_view ContextCalls::kind(std::int64_t layer) const {
  const std::vector<std::string>& kinds = options(job_).cp_comm_types;
  if (kinds.empty()) {
    return "p2p";
  }
  return kinds[kinds.size() == 1 ? 0 : static_cast<std::size_t>(layer) % kinds.size()];
}

void ContextCalls::pass_on(std::int64_t count, std::string_view tag) const {
  const GroupId next = out_.groups.pair(Axis::cp, GroupPattern::Shape::to_next);
  const GroupId previous = out_.groups.pair(Axis::cp, GroupPattern::Shape::from_previous);
  out_.set_waiting(Waiting::batched);
  out_.send(next, {count}, job_.train.dtype, k_ring, tag);
  out_.recv(previous, {count}, job_.train.dtype, k_ring, tag);
  out_.set_waiting(Waiting::at_once);
}
void ContextCalls::exchange(std::int64_t count, std::string_view tag) const {
  out_.all_to_all(groups_.cp, {count}, job_.train.dtype, k_context_exchange, tag);
}
void ContextCalls::gather(std::int64_t count, std::string_view tag) const {
  out_.all_gather(groups_.cp, {count}, job_.train.dtype, k_context_gather, tag);
}
void ContextCalls::scatter(std::int64_t count, std::string_view tag) const {
  out_.reduce_scatter(groups_.cp, {count}, job_.train.dtype, k_context_scatter, tag);
}

void ContextCalls::forward(std::int64_t layer) const {
  if (job_.layout.cp == 1) {
    return;
  }
  if (kind(layer) == "all_gather") {
    gather(keys_, "keys");
    gather(values_, "values");
  } else if (kind(layer) == "a2a") {
    exchange(queries_, "queries");
    exchange(keys_, "keys");
    exchange(values_, "values");
    exchange(outputs_, "attention output");
  } else {
    for (std::int64_t step = 1; step < job_.layout.cp; ++step) {
      pass_on(keys_ + values_, "keys and values");
    }
  }
}

void ContextCalls::backward(std::int64_t layer) const {
  if (job_.layout.cp == 1) {
    return;
  }
  if (kind(layer) == "all_gather") {
    gather(keys_, "keys");
    gather(values_, "values");
    scatter(keys_, "gradient of keys");
    scatter(values_, "gradient of values");
  } else if (kind(layer) == "a2a") {
    exchange(outputs_, "gradient of attention output");
    exchange(queries_, "gradient of queries");
    exchange(keys_, "gradient of keys");
    exchange(values_, "gradient of values");
  } else {
    // Keys and values go round, and from the second step on their gradients with them, one step longer.
    pass_on(keys_ + values_, "keys and values");
    for (std::int64_t step = 1; step + 1 < job_.layout.cp; ++step) {
      pass_on(2 * (keys_ + values_), "keys, values and their gradients");
    }
    pass_on(keys_ + values_, "gradients of keys and values");
  }
}

}  // namespace commlens::megatron
