#include "commlens/frameworks/deepspeed/zero12.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
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

/// The slices of one parameter: which of the ranks that share its states owns which part of its gradient.
struct Owned {
  GroupId group;
  std::vector<PartitionSlice> slices;
};
using Ownership = std::unordered_map<std::string, Owned>;

Ownership ownership(const std::vector<OptimizerGroup>& groups, const Job& job) {
  Ownership owners;
  for (const OptimizerGroup& group : groups) {
    const std::int64_t partition = flat_size(group, job) / group.size;
    const LocalParameters flat = flat_order(group, job);
    const std::vector<std::int64_t> sizes = aligned_sizes(flat, job);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < flat.size(); ++i) {
      owners[flat[i].name] = {group.ranks, cut_at_partitions(offset, flat[i].count, partition)};
      offset += sizes[i];
    }
  }
  return owners;
}

/// Slices of a bucket that go over the same ranks.
struct Slices {
  GroupId group;
  std::vector<PartitionSlice> slices;
};

/// All slices of a bucket in order, by group in the order of their first ones; neighbours of the same owner
/// are merged. Source: stage_1_and_2.py:1057.
std::vector<Slices> bucket_slices(const LocalParameters& order, const std::vector<std::size_t>& bucket,
                                  const Ownership& owners) {
  std::vector<Slices> by_group;
  std::optional<GroupId> previous;
  for (const std::size_t index : bucket) {
    const Owned& owned = owners.at(order[index].name);
    const auto is_of_group = [&](const Slices& each) { return each.group == owned.group; };
    auto place = std::find_if(by_group.begin(), by_group.end(), is_of_group);
    if (place == by_group.end()) {
      place = by_group.insert(by_group.end(), {owned.group, {}});
    }
    for (const PartitionSlice& slice : owned.slices) {
      std::vector<PartitionSlice>& slices = place->slices;
      if (previous == owned.group && slices.back().partition == slice.partition) {
        slices.back().count += slice.count;
      } else {
        slices.push_back(slice);
      }
      previous = owned.group;
    }
  }
  return by_group;
}

std::vector<std::int64_t> slice_sums(const std::vector<PartitionSlice>& slices, std::int64_t limit) {
  std::vector<std::int64_t> sizes;
  for (const PartitionSlice& slice : slices) {
    sizes.push_back(slice.count);
  }
  return buckets_closed_after_exceeding(sizes, limit);
}

/// Gradients that are reduced together: rows of the order, all of one dtype.
struct Bucket {
  DType dtype = DType::fp32;
  std::vector<std::size_t> rows;
  std::size_t flushed_before = 0;  // the row whose gradient it is that no longer fits; past the end: none
};

/// The gradients of one micro-batch in the order in which they are reduced, and the buckets they go in.
class Reductions {
 public:
  Reductions(ProgramBuilder& out, const EngineRank& rank)
      : out_(out),
        rank_(rank),
        job_(*rank.job),
        own_(options(job_)),
        overlaps_(own_.overlap_comm && !rank.has_pipeline_engine && !own_.coalesces_reductions),
        is_in_ready_order_((job_.train.zero_stage == 2 || overlaps_) && !own_.coalesces_reductions) {
    const std::vector<OptimizerGroup> groups = optimizer_groups(rank);
    if (is_in_ready_order_) {
      order_ = in_gradient_order(*rank.tree, pass_options(job_));
    } else {
      for (const OptimizerGroup& group : groups) {
        std::copy_if(group.parameters.begin(), group.parameters.end(), std::back_inserter(order_),
                     [](const LocalParameter& parameter) { return parameter.has_gradient; });
      }
    }
    owners_ = ownership(groups, job_);
    fill_buckets();
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
    for (const Bucket& bucket : buckets_) {
      compute_until(bucket.flushed_before);
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
  /// One bucket of each dtype, reduced before a gradient would make it exceed reduce_bucket_size. Source:
  /// stage_1_and_2.py:923; :1204, :1691 of 0.19.6.
  void fill_buckets() {
    std::map<std::string_view, Bucket> open;  // by the name of their dtype, as they are flushed in the end
    std::map<std::string_view, std::int64_t> fill;
    const auto flush = [&](std::string_view dtype, std::size_t row) {
      Bucket& bucket = open.at(dtype);
      bucket.flushed_before = row;
      if (!bucket.rows.empty() || sends_empty()) {
        buckets_.push_back(bucket);
      }
      bucket.rows.clear();
      fill[dtype] = 0;
    };
    for (std::size_t row = 0; row < order_.size(); ++row) {
      const DType dtype = communication_dtype(job_, order_[row]);
      const std::string_view name = name_of(dtype);
      open.try_emplace(name, Bucket{.dtype = dtype});
      if (fill[name] + order_[row].count > own_.reduce_bucket_size) {
        if (behaviour(job_).flushes_one_dtype) {
          flush(name, row);
        } else {
          std::for_each(open.begin(), open.end(), [&](const auto& each) { flush(each.first, row); });
        }
      }
      open.at(name).rows.push_back(row);
      fill[name] += order_[row].count;
    }
    for (const auto& [name, bucket] : open) {
      if (!bucket.rows.empty()) {
        flush(name, order_.size());
      }
    }
  }

  /// Whether a flush of an empty bucket sends something.
  bool sends_empty() const {
    return !own_.reduce_scatter && copies_gradients(job_) &&
           behaviour(job_).flush_without_scatter != Behaviour::Flush::fill_if_any;
  }

  void end_backward() const {
    if (rank_.end_backward) {
      rank_.end_backward();
    }
  }

  /// Until the gradient is ready that does not fit.
  void compute_until(std::size_t row) const {
    if (row == order_.size()) {
      end_backward();
    } else if (rank_.compute_until && is_in_ready_order_) {
      rank_.compute_until(order_[row]);
    }
  }

  std::int64_t fill_of(const Bucket& bucket) const {
    std::int64_t sum = 0;
    for (const std::size_t row : bucket.rows) {
      sum += order_[row].count;
    }
    return sum;
  }

  void write_bucket(const Bucket& bucket) {
    const DType sent = sent_dtype(job_, bucket.dtype);
    if (!copies_gradients(job_)) {
      out_.all_reduce(rank_.groups.data, {fill_of(bucket)}, sent, k_fallback, "gradient bucket");
      return;
    }
    if (!own_.reduce_scatter) {
      return write_without_scatter(bucket);
    }
    for (const Slices& slices : bucket_slices(order_, bucket.rows, owners_)) {
      if (own_.use_multi_rank_bucket_allreduce) {
        write_slices(slices, sent);
      } else {
        write_reduces(slices, sent);
      }
    }
  }

  void write_slices(const Slices& slices, DType dtype) {
    const std::vector<std::int64_t> sums = slice_sums(slices.slices, own_.reduce_bucket_size);
    const Rule& rule = sums.size() > 1 ? k_bucket_split : k_bucket;
    for (const std::int64_t sum : sums) {
      out_.all_reduce(slices.group, {sum}, dtype, rule, "gradient bucket");
    }
  }

  /// Slices grouped by owner, owners in order of first appearance. Source: stage_1_and_2.py:1112.
  void write_reduces(const Slices& slices, DType dtype) {
    std::vector<std::vector<PartitionSlice>> by_owner;
    std::unordered_map<std::int64_t, std::size_t> places;
    for (const PartitionSlice& slice : slices.slices) {
      const auto [place, is_new] = places.emplace(slice.partition, by_owner.size());
      if (is_new) {
        by_owner.emplace_back();
      }
      by_owner[place->second].push_back(slice);
    }
    for (const std::vector<PartitionSlice>& own : by_owner) {
      for (const std::int64_t sum : slice_sums(own, own_.reduce_bucket_size)) {
        out_.reduce({slices.group, GroupRank{own.front().partition}}, {sum}, dtype, k_reduce,
                    "gradient bucket");
      }
    }
  }

  /// reduce_scatter: false. What fills the buffer goes; in 0.14.0 the whole buffer, whatever fills it. A
  /// parameter larger than the buffer goes alone. Source: stage_1_and_2.py:1042, 1363; :1259 of 0.19.6.
  void write_without_scatter(const Bucket& bucket) {
    std::int64_t count = fill_of(bucket);
    if (behaviour(job_).flush_without_scatter == Behaviour::Flush::buffer) {
      count = std::max(count, own_.reduce_bucket_size);
    }
    out_.all_reduce(rank_.groups.data, {count}, bucket.dtype, k_whole_buffer,
                    bucket.rows.empty() ? "empty gradient buffer" : "gradient buffer");
  }

  ProgramBuilder& out_;
  const EngineRank& rank_;
  const Job& job_;
  const Options& own_;
  bool overlaps_;
  bool is_in_ready_order_;
  LocalParameters order_;
  std::vector<Bucket> buckets_;
  Ownership owners_;
};

}  // namespace

void write_zero12_gradients(ProgramBuilder& out, const EngineRank& rank, bool is_boundary) {
  const bool waits = rank.job->train.zero_stage == 1 || options(*rank.job).coalesces_reductions;
  if (waits && !is_boundary) {
    if (rank.end_backward) {
      rank.end_backward();
    }
    return;
  }
  Reductions(out, rank).write();
}

}  // namespace commlens::deepspeed
