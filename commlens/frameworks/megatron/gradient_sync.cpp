#include "commlens/frameworks/megatron/gradient_sync.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "commlens/frameworks/megatron/settings.hpp"
#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_reduce_bucket{"megatron.gradient_all_reduce",
                           k_new_source<"core/distributed/param_and_grad_buffer.py:724">};
const Rule k_scatter_bucket{"megatron.gradient_reduce_scatter",
                            k_new_source<"core/distributed/param_and_grad_buffer.py:712">};
const Rule k_exchange_bucket{"megatron.gradient_all_to_all",
                             k_new_source<"core/distributed/reduce_scatter_with_fp32_accumulation.py">};
const Rule k_reduce_instances{"megatron.gradient_all_reduce_of_instances",
                              k_new_source<"core/distributed/param_and_grad_buffer.py:750">};
const Rule k_gather_bucket{"megatron.gather_updated_parameters",
                           k_new_source<"core/distributed/param_and_grad_buffer.py:515">};

const Rule k_gather_layers{"megatron.gather_updated_parameters",
                           k_new_source<"core/optimizer/layer_wise_optimizer.py:772">};

std::int64_t count_of(const std::vector<std::vector<ModuleParameter>>& chunks) {
  std::int64_t count = 0;
  for (const std::vector<ModuleParameter>& chunk : chunks) {
    for (const ModuleParameter& parameter : chunk) {
      count += parameter.count;
    }
  }
  return count;
}

bool holds(const GradientBucket& bucket, const ModulePlace& place) {
  return std::find(bucket.places.begin(), bucket.places.end(), place) != bucket.places.end();
}

}  // namespace

GradientSync::GradientSync(ProgramBuilder& out, const MegatronGroups& groups, const Job& job,
                           std::int64_t stage, const std::vector<std::vector<ModuleParameter>>& parameters)
    : out_(out),
      groups_(groups),
      job_(job),
      options_(options(job)),
      stage_(stage),
      gradient_dtype_(gradient_dtype_of(job)) {
  for (std::size_t chunk = 0; chunk < parameters.size(); ++chunk) {
    const BucketSettings settings = settings_of(static_cast<std::int64_t>(chunk), parameters);
    parameters_.insert(parameters_.end(), parameters[chunk].begin(), parameters[chunk].end());
    std::vector<Bucket>& buckets = chunks_.emplace_back();
    for (GradientBucket& part : gradient_buckets(parameters[chunk], settings)) {
      buckets.push_back({std::move(part)});
    }
  }
}

/// Only the first chunk of the first stage has buckets (training/models/dist_utils.py:284-340).
BucketSettings GradientSync::settings_of(std::int64_t chunk,
                                         const std::vector<std::vector<ModuleParameter>>& all) const {
  constexpr std::int64_t smallest_bucket = 40'000'000;
  constexpr std::int64_t bucket_per_rank = 1'000'000;
  const GroupTable& table = out_.tables().groups;
  BucketSettings settings{.data_ranks = table.size(groups_.intra_dp_cp),
                          .expert_ranks = table.size(groups_.intra_edp),
                          .is_sharded = is_sharded(),
                          .pads_more = options_.pads_buckets};
  if (options_.overlap_grad_reduce && stage_ == 0 && chunk == 0 && !options_.gathers_with_step) {
    settings.limit = std::max(smallest_bucket, bucket_per_rank * table.size(groups_.dp_cp));
    settings.limit = options_.bucket_size > 0 ? options_.bucket_size : settings.limit;
    settings.limit =
        options_.buckets > 0 ? std::max<std::int64_t>(count_of(all) / options_.buckets, 1) : settings.limit;
  }
  return settings;
}

bool GradientSync::gathers_in_forward() const { return is_sharded() && options_.overlap_param_gather; }

void GradientSync::begin(bool is_first, bool is_gathered) {
  is_first_ = is_first;
  for (std::vector<Bucket>& chunk : chunks_) {
    for (Bucket& bucket : chunk) {
      bucket.waits_for = bucket.part.places.size();
      bucket.is_reduced = false;
      bucket.is_gathered = is_first || is_gathered;
      bucket.is_waited_for = bucket.is_gathered;
    }
  }
}

void GradientSync::use(std::int64_t chunk, const ModulePlace& place) {
  if (!gathers_in_forward()) {
    return;
  }
  const bool is_aligned = job_.layout.virtual_stages > 1 && options_.aligns_param_gather;
  std::vector<Bucket>& buckets = chunks_[static_cast<std::size_t>(chunk)];
  for (std::size_t at = 0; at < buckets.size(); ++at) {
    Bucket& bucket = buckets[at];
    if (bucket.is_waited_for || !holds(bucket.part, place)) {
      continue;
    }
    if (!bucket.is_gathered) {
      write_gather(bucket);
    }
    bucket.is_waited_for = true;
    // The next one is asked for when this one is waited for.
    const bool has_next = at > 0 && buckets[at - 1].part.is_expert == bucket.part.is_expert;
    if (!is_aligned && has_next && !buckets[at - 1].is_gathered) {
      write_gather(buckets[at - 1]);
    }
  }
}

void GradientSync::complete(std::int64_t chunk, const ModulePlace& place) {
  if (!options_.overlap_grad_reduce || is_first_) {
    return;
  }
  for (Bucket& bucket : chunks_[static_cast<std::size_t>(chunk)]) {
    const std::vector<ModulePlace>& places = bucket.part.places;
    bucket.waits_for -= static_cast<std::size_t>(std::count(places.begin(), places.end(), place));
    if (bucket.waits_for == 0 && !bucket.is_reduced) {
      write_reduction(bucket);
    }
  }
}

/// Which gradients are complete is not counted here, so that each iteration counts as the first one, and a
/// reduction between instances, not known to be under way, is issued again in the end (finish_grad_sync).
void GradientSync::reduce(std::int64_t chunk) {
  for (Bucket& bucket : chunks_[static_cast<std::size_t>(chunk)]) {
    write_reduction(bucket);
    bucket.is_reduced = options_.instances == 1;
  }
}

void GradientSync::gather(std::int64_t chunk) {
  if (!gathers_in_forward() || is_first_) {
    return;
  }
  for (Bucket& bucket : chunks_[static_cast<std::size_t>(chunk)]) {
    if (!bucket.is_gathered) {
      write_gather(bucket);
    }
  }
}

void GradientSync::finish() {
  for (std::vector<Bucket>& chunk : chunks_) {
    for (Bucket& bucket : chunk) {
      if (!bucket.is_reduced) {
        write_reduction(bucket);
      }
    }
  }
  for (const StepIndex call : std::exchange(under_way_, {})) {
    out_.wait_for(call);
  }
}

void GradientSync::gather_updated(int optimizers) {
  for (int optimizer = 0; optimizer < optimizers; ++optimizer) {
    for (std::vector<Bucket>& chunk : chunks_) {
      for (Bucket& bucket : chunk) {
        write_gather(bucket);
      }
    }
  }
}

/// The smallest parameter first, to and fro over the ranks (_shard_params_ping_pong).
std::vector<std::int64_t> GradientSync::layer_shares(bool is_expert, std::int64_t ranks) const {
  std::vector<std::int64_t> sizes;
  for (const ModuleParameter& parameter : parameters_) {
    if (parameter.is_expert == is_expert) {
      sizes.push_back(parameter.count);
    }
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::int64_t> shares(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t turn = i % (2 * shares.size());
    shares[turn < shares.size() ? turn : 2 * shares.size() - 1 - turn] += sizes[i];
  }
  return shares;
}

/// Where the ranks' parts differ, their mean.
void GradientSync::gather_layers() {
  for (const bool is_expert : {false, true}) {
    const GroupId group = is_expert ? groups_.edp : groups_.dp_cp;
    const std::int64_t ranks = out_.tables().groups.size(group);
    const std::vector<std::int64_t> shares = layer_shares(is_expert, ranks);
    const std::int64_t whole = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const bool is_even = std::count(shares.begin(), shares.end(), shares.front()) == ranks;
    if (whole == 0 || ranks == 1) {
      continue;
    }
    out_.set_match(is_even ? Match::exact : Match::count);
    out_.all_gather(group, {ceil_div(whole, ranks)}, job_.train.dtype, k_gather_layers, "updated parameters");
    out_.set_match(Match::exact);
  }
}

Elements GradientSync::updated() const {
  const GroupTable& table = out_.tables().groups;
  std::int64_t count = 0;
  for (const std::vector<Bucket>& chunk : chunks_) {
    for (const Bucket& bucket : chunk) {
      const GroupId group = bucket.part.is_expert ? groups_.intra_edp : groups_.intra_dp_cp;
      count += is_sharded() ? bucket.part.count / table.size(group) : bucket.part.count;
    }
  }
  return {count};
}

void GradientSync::write_reduction(Bucket& bucket) {
  const bool is_expert = bucket.part.is_expert;
  const std::string_view tag = is_expert ? "expert gradients" : "gradients";
  bucket.is_reduced = true;
  out_.set_waiting(options_.overlap_grad_reduce ? Waiting::later : Waiting::at_once);
  out_.set_reduction(options_.averages_in_collective ? Reduction::avg : Reduction::sum);
  if (!is_sharded()) {
    out_.all_reduce(is_expert ? groups_.edp : groups_.dp_cp, {bucket.part.count}, gradient_dtype_,
                    k_reduce_bucket, tag);
  } else {
    const GroupId group = is_expert ? groups_.intra_edp : groups_.intra_dp_cp;
    const Elements shard{bucket.part.count / out_.tables().groups.size(group)};
    if (options_.scatters_by_all_to_all) {
      out_.all_to_all(group, {bucket.part.count}, gradient_dtype_, k_exchange_bucket, tag);
    } else {
      out_.reduce_scatter(group, shard, gradient_dtype_, k_scatter_bucket, tag);
    }
    if (options_.instances > 1) {
      out_.wait_for(out_.last_call());
      out_.all_reduce(groups_.inter_instances, shard, gradient_dtype_, k_reduce_instances, tag);
    }
  }
  if (options_.overlap_grad_reduce) {
    under_way_.push_back(out_.last_call());
  }
  out_.set_reduction(Reduction::sum);
  out_.set_waiting(Waiting::at_once);
}

void GradientSync::write_gather(Bucket& bucket) {
  const GroupId group = bucket.part.is_expert ? groups_.intra_edp : groups_.intra_dp_cp;
  bucket.is_gathered = true;
  out_.all_gather(group, {bucket.part.count / out_.tables().groups.size(group)}, job_.train.dtype,
                  k_gather_bucket, "updated parameters");
}

}  // namespace commlens::megatron
