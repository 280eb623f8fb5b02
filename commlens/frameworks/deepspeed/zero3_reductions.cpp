#include "commlens/frameworks/deepspeed/zero3_reductions.hpp"

#include <algorithm>
#include <utility>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/plan/schemes/buckets.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_reduce_scatter{"zero3.gradient_reduce_scatter",
                            k_source<"runtime/comm/coalesced_collectives.py:81 reduce_scatter_coalesced">};
const Rule k_all_reduce{"zero3.gradient_all_reduce",
                        k_source<"runtime/zero/stage3.py:1297 __avg_scatter_contiguous_grads">};
const Rule k_ids{"zero3.bucket_ids",
                 k_new_source<"runtime/zero/stage3.py:1592 __reduce_and_partition_ipg_grads">};
const Rule k_gradient_exchange{
    "zero3.quantized_gradient_exchange",
    k_new_source<"runtime/comm/coalesced_collectives.py:30 all_to_all_quant_reduce">};

}  // namespace

std::int64_t node_ranks(const Job& job) {
  constexpr std::int64_t usual = 8;
  const std::int64_t ranks = data_ranks(job);
  const std::int64_t known = options(job).gpus_per_node;
  return known > 0 ? known : ranks > usual ? usual : std::max<std::int64_t>(ranks / 2, 1);
}

GroupId sharing_group(const EngineRank& rank, const LocalParameter& parameter) {
  return parameter.is_expert ? rank.groups.expert_data : rank.groups.shards;
}

std::int64_t sharing_ranks(const EngineRank& rank, const LocalParameter& parameter) {
  return parameter.is_expert ? rank.groups.expert_data_ranks : rank.groups.shard_ranks;
}

std::int64_t shard_of(const EngineRank& rank, const LocalParameter& parameter) {
  return ceil_div(parameter.count, sharing_ranks(rank, parameter));
}

void write_check(ProgramBuilder& out, std::int64_t numbers, const Rule& rule) {
  const Rooted first{out.groups.world, GroupRank{0}};
  out.set_waiting(Waiting::at_once);
  if (behaviour(out.job()).sends_trace_lengths) {
    out.broadcast(first, {1}, DType::int64, rule, "length");
  }
  out.broadcast(first, {numbers}, DType::int64, rule);
  out.set_waiting(Waiting::later);
}

Zero3Reductions::Zero3Reductions(ProgramBuilder& out, const EngineRank& rank) : out_(out), rank_(rank) {}

void Zero3Reductions::add(std::size_t parameter) {
  const LocalParameter& gradient = rank_.parameters[parameter];
  const DType dtype = communication_dtype(*rank_.job, gradient);
  Bucket& bucket = buckets_[name_of(dtype)];
  bucket.dtype = dtype;
  const bool is_other_group =
      !bucket.rows.empty() && rank_.parameters[bucket.rows.front()].is_expert != gradient.is_expert;
  const bool exceeds = bucket.count + gradient.count > options(*rank_.job).reduce_bucket_size;
  if (is_other_group || (exceeds && bucket.count > 0)) {
    flush(bucket);
  }
  bucket.rows.push_back(parameter);
  bucket.count += gradient.count;
}

void Zero3Reductions::finish() {
  flush_all();
  for (const StepIndex call : std::exchange(open_, {})) {
    out_.wait_for(call);
  }
}

void Zero3Reductions::flush_all() {
  for (auto& [name, bucket] : buckets_) {
    flush(bucket);
  }
}

void Zero3Reductions::flush(Bucket& bucket) {
  const Bucket full = std::exchange(bucket, {.dtype = bucket.dtype});
  if (full.rows.empty()) {
    return;
  }
  if (options(*rank_.job).has_sanity_checks) {
    write_check(out_, static_cast<std::int64_t>(full.rows.size()), k_ids);
  }
  const bool overlaps = options(*rank_.job).overlap_comm;
  out_.set_waiting(overlaps ? Waiting::later : Waiting::at_once);
  write_bucket(full);
  if (overlaps) {
    open_.push_back(out_.last_call());
  }
  out_.set_waiting(Waiting::later);
}

void Zero3Reductions::write_bucket(const Bucket& bucket) {
  if (quantizes()) {
    return write_quantized(bucket);
  }
  const Options& own = options(*rank_.job);
  const GroupId group = sharing_group(rank_, rank_.parameters[bucket.rows.front()]);
  if (!own.reduce_scatter && own.contiguous_gradients && bucket.count <= own.reduce_bucket_size) {
    out_.all_reduce(group, {bucket.count}, bucket.dtype, k_all_reduce, "gradient bucket");
    return;
  }
  std::int64_t shards = 0;
  for (const std::size_t row : bucket.rows) {
    shards += shard_of(rank_, rank_.parameters[row]);
  }
  out_.reduce_scatter(group, {shards}, bucket.dtype, k_reduce_scatter, "gradient bucket");
}

bool Zero3Reductions::quantizes() const {
  return rank_.job->train.quantized_gradients && node_ranks(*rank_.job) < rank_.groups.data_ranks;
}

/// Each gradient in two hops, within a node and between nodes; those that cannot be halved evenly, and
/// vectors, are reduced as they are. Source: runtime/comm/coalesced_collectives.py:30 of 0.19.6,
/// csrc/quantization/pt_binding.cpp:227.
void Zero3Reductions::write_quantized(const Bucket& bucket) {
  const std::int64_t ranks = rank_.groups.data_ranks;
  const std::int64_t local = node_ranks(*rank_.job);
  const GroupId within = out_.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::block, local}}});
  const GroupId between = out_.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::stride, local}}});
  std::vector<std::size_t> rows = bucket.rows;
  std::sort(rows.begin(), rows.end());
  for (const std::size_t row : rows) {
    const LocalParameter& gradient = rank_.parameters[row];
    if (gradient.longest_side == 0 || gradient.count % (2 * ranks) != 0) {
      out_.reduce_scatter(rank_.groups.data, {shard_of(rank_, gradient)}, bucket.dtype, k_reduce_scatter,
                          gradient.name);
      continue;
    }
    const std::int64_t groups = std::max(gradient.longest_side, ranks);
    out_.all_to_all(within, {gradient.count / 2}, DType::int8, k_gradient_exchange, gradient.name);
    out_.all_to_all(within, {groups}, DType::fp32, k_gradient_exchange, "scales");
    out_.all_to_all(between, {gradient.count / 2 / local}, DType::int8, k_gradient_exchange, gradient.name);
    out_.all_to_all(between, {groups / local}, DType::fp32, k_gradient_exchange, "scales");
  }
}

}  // namespace commlens::deepspeed
