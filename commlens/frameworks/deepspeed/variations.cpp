// The settings of DeepSpeed that make two runs of a model differ.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

void add_zero(Variations& variations) {
  const std::pair<std::string_view, bool Options::*> switches[] = {
      {"reduce_scatter", &Options::reduce_scatter},
      {"use_multi_rank_bucket_allreduce", &Options::use_multi_rank_bucket_allreduce},
      {"overlap_comm", &Options::overlap_comm},
      {"round_robin_gradients", &Options::round_robin_gradients},
      {"contiguous_gradients", &Options::contiguous_gradients},
      {"parameter groups by weight decay", &Options::weight_decay_groups}};
  for (const auto& [setting, member] : switches) {
    variations.toggle(setting, [field = member](Job& job) -> bool& { return options(job).*field; });
  }
  variations.limits(
      "reduce_bucket_size", [](Job& job) -> std::int64_t& { return options(job).reduce_bucket_size; },
      variations.likely_limits());
  const bool in_fp32 = options(variations.job()).grad_accumulation_dtype == DType::fp32;
  variations.add("grad_accum_dtype", in_fp32 ? "the model's" : "fp32", [&](Job& job) {
    options(job).grad_accumulation_dtype = in_fp32 ? std::nullopt : std::optional<DType>(DType::fp32);
  });
}

void add_zero3(Variations& variations) {
  variations.toggle("zero.Init", [](Job& job) -> bool& { return options(job).zero_init; });
  const std::vector<std::int64_t> small = round_numbers({0, 100, 200, 500});
  variations.limits(
      "stage3_param_persistence_threshold",
      [](Job& job) -> std::int64_t& { return job.train.persistence_threshold; }, small);
  const std::pair<std::string_view, std::int64_t Options::*> limits[] = {
      {"stage3_prefetch_bucket_size", &Options::prefetch_bucket_size},
      {"stage3_max_live_parameters", &Options::max_live_parameters},
      {"stage3_max_reuse_distance", &Options::max_reuse_distance}};
  for (const auto& [setting, member] : limits) {
    variations.limits(
        setting, [field = member](Job& job) -> std::int64_t& { return options(job).*field; }, small);
  }
  variations.limits(
      "sub_group_size", [](Job& job) -> std::int64_t& { return options(job).sub_group_size; },
      round_numbers());
  for (std::int64_t ranks = 1; ranks <= variations.job().layout.dp; ranks *= 2) {
    if (ranks != variations.job().train.hpz) {
      variations.add("zero_hpz_partition_size", fmt::format("{}", ranks),
                     [&](Job& job) { job.train.hpz = ranks; });
    }
  }
}

/// What newer releases have.
void add_newer(Variations& variations) {
  const std::pair<std::string_view, bool Options::*> switches[] = {
      {"memory_efficient_linear", &Options::memory_efficient_linear},
      {"stage3_use_all_reduce_for_fetch_params", &Options::all_reduce_fetch},
      {"stage3_allgather_sequential", &Options::sequential_gather},
      {"enable_sanity_checks", &Options::has_sanity_checks},
      {"compute_grad_norm", &Options::computes_norm},
      {"parameter_alignment", &Options::aligns_parameters},
      {"checkpoint_reentrant", &Options::has_reentrant_checkpoints},
      {"dynamic_shape", &Options::dynamic_shape},
      {"coalesce_grad_reduction", &Options::coalesces_reductions}};
  for (const auto& [setting, member] : switches) {
    variations.toggle(setting, [field = member](Job& job) -> bool& { return options(job).*field; });
  }
  const Job& job = variations.job();
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    variations.add("communication_data_type", std::string(name_of(dtype)), [&](Job& other) {
      options(other).communication_dtype = options(other).sequence_communication_dtype = dtype;
    });
  }
  if (job.train.dtype == DType::bf16) {
    const bool checks = options(job).checks_bf16_overflow.value_or(behaviour(job).checks_bf16_overflow);
    variations.add("check_grad_overflow", checks ? "false" : "true",
                   [&](Job& other) { options(other).checks_bf16_overflow = !checks; });
  }
  if (job.layout.cp > 1) {
    const bool is_mesh = options(job).sequence_groups == SequenceGroups::mesh;
    variations.add("sequence_parallel_groups", is_mesh ? "mpu" : "mesh", [&](Job& other) {
      options(other).sequence_groups = is_mesh ? SequenceGroups::mpu : SequenceGroups::mesh;
    });
  }
}

/// Other releases, the newest first.
void add_releases(Variations& variations) {
  const std::string_view now = behaviour(variations.job()).version.name;
  std::vector<KnownVersion> releases = known_versions();
  std::reverse(releases.begin(), releases.end());
  for (const KnownVersion& release : releases) {
    if (release.name != now) {
      variations.add_release(std::string(release.name),
                             [&](Job& job) { job.framework_version = release.last; });
    }
  }
}

void add_pipeline(Variations& variations, const std::function<std::string&(Job&)>& partition_method) {
  variations.toggle("attention mask in sends", [](Job& job) -> bool& { return options(job).attention_mask; });
  variations.toggle("pipe_partitioned", [](Job& job) -> bool& { return options(job).pipe_partitioned; });
  variations.toggle("grad_partitioned", [](Job& job) -> bool& { return options(job).grad_partitioned; });
  const bool other = !options(variations.job()).pipe_partitioned;
  variations.add("pipe_partitioned and grad_partitioned", other ? "true" : "false", [&](Job& job) {
    options(job).pipe_partitioned = other;
    options(job).grad_partitioned = other;
  });
  for (const char* method : {"parameters", "uniform", "type:transformer|mlp"}) {
    variations.add("pipeline partition method", method, [&](Job& job) { partition_method(job) = method; });
  }
}

}  // namespace

void add_engine_variations(Variations& variations,
                           const std::function<std::string&(Job&)>& partition_method) {
  add_zero(variations);
  if (variations.job().train.zero_stage == 3) {
    add_zero3(variations);
  }
  if (variations.job().layout.pp > 1) {
    add_pipeline(variations, partition_method);
  }
}

void add_variations(Variations& variations) {
  add_engine_variations(variations, [](Job& job) -> std::string& { return options(job).partition_method; });
  variations.toggle("partition_activations",
                    [](Job& job) -> bool& { return job.train.partition_activations; });
  add_newer(variations);
  add_releases(variations);
}

}  // namespace commlens::deepspeed
