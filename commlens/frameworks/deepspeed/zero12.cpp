#include "commlens/frameworks/deepspeed/zero12.hpp"

#include <algorithm>
#include <unordered_map>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/plan/schemes/buckets.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_bucket{"zero12.gradient_all_reduce",
                    k_source<"runtime/zero/stage_1_and_2.py:1496 allreduce_bucket">};
const Rule k_bucket_split{"zero12.gradient_all_reduce_cut_at_partition",
                          k_source<"runtime/zero/stage_1_and_2.py:1011 allreduce_and_scatter">};
const Rule k_reduce{"zero12.gradient_reduce_to_owner",
                    k_source<"runtime/zero/stage_1_and_2.py:1499 allreduce_bucket">};
const Rule k_whole_buffer{"zero12.whole_buffer_all_reduce",
                          k_source<"runtime/zero/stage_1_and_2.py:979 gradient_reduction_w_predivide">};
const Rule k_fallback{"zero12.fallback_all_reduce",
                      k_source<"runtime/zero/stage_1_and_2.py:1561 buffered_reduce_fallback">, false};

/// The slices of one parameter: which data rank owns which part of its gradient.
using Ownership = std::unordered_map<std::string, std::vector<Slice>>;

/// Parameters i, i + d, i + 2d, … of each rank in turn. Source: stage_1_and_2.py:638 (rules D11).
LocalParameters round_robin(const LocalParameters& group, std::int64_t ranks) {
  LocalParameters result;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = static_cast<std::size_t>(rank); i < group.size();
         i += static_cast<std::size_t>(ranks)) {
      result.push_back(group[i]);
    }
  }
  return result;
}

Ownership ownership(const std::vector<LocalParameters>& groups, const Job& job) {
  Ownership owners;
  const std::int64_t ranks = job.layout.dp;
  for (const LocalParameters& group : groups) {
    const std::int64_t partition = round_up(total_count(group), 2 * ranks) / ranks;
    const LocalParameters flat = options(job).round_robin_gradients ? round_robin(group, ranks) : group;
    std::int64_t offset = 0;
    for (const LocalParameter& parameter : flat) {
      owners[parameter.name] = cut_at_partitions(offset, parameter.count, partition);
      offset += parameter.count;
    }
  }
  return owners;
}

/// All slices of a bucket in order, neighbours of the same owner merged. Source: stage_1_and_2.py:1057.
std::vector<Slice> bucket_slices(const LocalParameters& order, const std::vector<std::size_t>& bucket,
                                 const Ownership& owners) {
  std::vector<Slice> slices;
  for (const std::size_t index : bucket) {
    for (const Slice& slice : owners.at(order[index].name)) {
      if (!slices.empty() && slices.back().partition == slice.partition) {
        slices.back().count += slice.count;
      } else {
        slices.push_back(slice);
      }
    }
  }
  return slices;
}

std::vector<std::int64_t> slice_sums(const std::vector<Slice>& slices, std::int64_t limit) {
  std::vector<std::int64_t> sizes;
  for (const Slice& slice : slices) {
    sizes.push_back(slice.count);
  }
  return buckets_closed_after_exceeding(sizes, limit);
}

void write_slices(ProgramBuilder& out, const Job& job, const std::vector<Slice>& slices) {
  const std::vector<std::int64_t> sums = slice_sums(slices, options(job).reduce_bucket_size);
  const Rule& rule = sums.size() > 1 ? k_bucket_split : k_bucket;
  for (const std::int64_t sum : sums) {
    out.all_reduce(out.groups.dp, {sum}, communication_dtype(job), rule, "gradient bucket");
  }
}

/// Slices grouped by owner, owners in order of first appearance. Source: stage_1_and_2.py:1112.
void write_reduces(ProgramBuilder& out, const Job& job, const std::vector<Slice>& slices) {
  std::vector<std::vector<Slice>> by_owner;
  std::unordered_map<std::int64_t, std::size_t> places;
  for (const Slice& slice : slices) {
    const auto [place, is_new] = places.emplace(slice.partition, by_owner.size());
    if (is_new) {
      by_owner.emplace_back();
    }
    by_owner[place->second].push_back(slice);
  }
  for (const std::vector<Slice>& own : by_owner) {
    for (const std::int64_t sum : slice_sums(own, options(job).reduce_bucket_size)) {
      out.reduce({out.groups.dp, GroupRank{own.front().partition}}, {sum}, communication_dtype(job), k_reduce,
                 "gradient bucket");
    }
  }
}

/// The gradients of one micro-batch in the order in which they are reduced, and the buckets they go in.
class Reductions {
 public:
  Reductions(ProgramBuilder& out, const EngineRank& rank)
      : out_(out),
        rank_(rank),
        job_(*rank.job),
        groups_(optimizer_groups(rank.parameters, options(job_).weight_decay_groups)),
        overlaps_(options(job_).overlap_comm && !rank.has_pipeline_engine),
        is_in_ready_order_(job_.train.zero_stage == 2 || overlaps_) {
    if (is_in_ready_order_) {
      order_ = in_ready_order(rank.parameters);
    } else {
      for (const LocalParameters& group : groups_) {
        order_.insert(order_.end(), group.begin(), group.end());
      }
    }
    std::vector<std::int64_t> sizes;
    for (const LocalParameter& parameter : order_) {
      sizes.push_back(parameter.count);
    }
    buckets_ = buckets_closed_before_exceeding(sizes, options(job_).reduce_bucket_size);
    owners_ = ownership(groups_, job_);
  }

  /// A bucket is reduced when the first gradient that does not fit into it is ready, the last one at the end
  /// of the backward pass; on a stream of its own with overlap_comm. Source: stage_1_and_2.py:923, 1017,
  /// 1337.
  void write() {
    if (!is_in_ready_order_) {
      end_backward();
    }
    std::vector<StepIndex> open;
    out_.set_waiting(overlaps_ ? Waiting::later : Waiting::at_once);
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      compute_until(bucket + 1);
      write_bucket(bucket);
      open.push_back(out_.last_call());
    }
    out_.set_waiting(Waiting::at_once);
    end_backward();
    if (overlaps_) {
      std::for_each(open.begin(), open.end(), [&](StepIndex call) { out_.wait_for(call); });
    }
  }

 private:
  void end_backward() const {
    if (rank_.end_backward) {
      rank_.end_backward();
    }
  }

  /// Until the first gradient of the bucket is ready.
  void compute_until(std::size_t bucket) const {
    if (bucket == buckets_.size()) {
      end_backward();
    } else if (rank_.compute_until && is_in_ready_order_) {
      rank_.compute_until(order_[buckets_[bucket].front()]);
    }
  }

  void write_bucket(std::size_t bucket) {
    if (!options(job_).reduce_scatter) {
      return write_whole_buffer(bucket);
    }
    const std::vector<Slice> slices = bucket_slices(order_, buckets_[bucket], owners_);
    if (!options(job_).contiguous_gradients) {
      std::int64_t sum = 0;
      for (const Slice& slice : slices) {
        sum += slice.count;
      }
      out_.all_reduce(out_.groups.dp, {sum}, communication_dtype(job_), k_fallback, "gradient bucket");
    } else if (options(job_).use_multi_rank_bucket_allreduce) {
      write_slices(out_, job_, slices);
    } else {
      write_reduces(out_, job_, slices);
    }
  }

  /// reduce_scatter: false. The whole buffer goes at every flush, whatever its fill, also at the flush of an
  /// empty buffer before a first parameter larger than it; such a parameter goes alone. Source:
  /// stage_1_and_2.py:1042, 1363.
  void write_whole_buffer(std::size_t bucket) {
    const std::int64_t limit = options(job_).reduce_bucket_size;
    const DType dtype = communication_dtype(job_);
    const std::int64_t first = order_[buckets_[bucket].front()].count;
    if (bucket == 0 && first > limit) {
      out_.all_reduce(out_.groups.dp, {limit}, dtype, k_whole_buffer, "empty gradient buffer");
    }
    out_.all_reduce(out_.groups.dp, {std::max(first, limit)}, dtype, k_whole_buffer, "gradient buffer");
  }

  ProgramBuilder& out_;
  const EngineRank& rank_;
  const Job& job_;
  std::vector<LocalParameters> groups_;
  bool overlaps_;
  bool is_in_ready_order_;
  LocalParameters order_;
  std::vector<std::vector<std::size_t>> buckets_;
  Ownership owners_;
};

}  // namespace

void write_zero12_gradients(ProgramBuilder& out, const EngineRank& rank, bool is_boundary) {
  if (rank.job->train.zero_stage == 1 && !is_boundary) {
    if (rank.end_backward) {
      rank.end_backward();
    }
    return;
  }
  Reductions(out, rank).write();
}

}  // namespace commlens::deepspeed
