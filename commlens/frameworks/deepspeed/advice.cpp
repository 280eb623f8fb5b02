// Texts of advice on DeepSpeed's configuration.
#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::deepspeed {
namespace {

/// Gradients that wait for the end of the backward pass.
std::vector<AdvisedChange> overlapping(const Job& job, std::string_view place) {
  const bool sums_at_end =
      options(job).overlap_comm || options(job).pipeline_engine || job.train.zero_stage == 0;
  if (sums_at_end) {
    return {};
  }
  Job changed = job;
  options(changed).overlap_comm = true;
  return {{std::move(changed), "", fmt::format("zero_optimization.overlap_comm: true {}", place)}};
}

std::vector<AdvisedChange> less_reduced(const Job& job, std::string_view place) {
  Job changed = job;
  const bool sends_whole_buffers = behaviour(job).flush_without_scatter == Behaviour::Flush::buffer;
  if (!options(job).reduce_scatter && sends_whole_buffers) {
    options(changed).reduce_scatter = true;
    return {{std::move(changed), "Let DeepSpeed reduce what is in a bucket, not the whole buffer",
             fmt::format("zero_optimization.reduce_scatter: true {}", place)}};
  }
  if (options(job).reduce_scatter && copies_gradients(job) && options(job).use_multi_rank_bucket_allreduce) {
    options(changed).use_multi_rank_bucket_allreduce = false;
    return {{std::move(changed), "Reduce each gradient to the rank that owns it",
             fmt::format("zero_optimization.use_multi_rank_bucket_allreduce: false {}", place)}};
  }
  return {};
}

/// What stage 3 gathers more often, or with more bytes, than it would by default.
std::vector<AdvisedChange> gathered_less(const Job& job, std::string_view place) {
  std::vector<AdvisedChange> changes;
  if (job.train.zero_stage != 3) {
    return changes;
  }
  if (options(job).all_reduce_fetch) {
    Job changed = job;
    options(changed).all_reduce_fetch = false;
    changes.push_back(
        {std::move(changed), "Gather parameters instead of all_reducing them",
         fmt::format("zero_optimization.stage3_use_all_reduce_for_fetch_params: false {}", place)});
  }
  constexpr std::int64_t usual = 1'000'000'000;
  if (options(job).max_reuse_distance < usual) {
    Job changed = job;
    options(changed).max_reuse_distance = usual;
    changes.push_back({std::move(changed), "Keep parameters that are used again soon",
                       fmt::format("zero_optimization.stage3_max_reuse_distance: {} {}", usual, place)});
  }
  return changes;
}

/// Ulysses reduces gradients in fp32 unless it is told otherwise, stages 1 and 2 also then.
std::vector<AdvisedChange> narrower_gradients(const Job& job, std::string_view place) {
  const auto sent_size = [](const Job& one) { return size_of(sent_dtype(one, communication_dtype(one))); };
  Job changed = job;
  options(changed).sequence_communication_dtype = job.train.dtype;
  if (job.layout.cp == 1 || options(job).autocast || sent_size(changed) >= sent_size(job)) {
    return {};
  }
  return {{std::move(changed), fmt::format("Reduce gradients in {}", name_of(job.train.dtype)),
           fmt::format("seq_parallel_communication_data_type: {} {}", name_of(job.train.dtype), place)}};
}

/// A client may send the mask regardless of its configuration: only the engine's own jobs can omit it.
std::vector<AdvisedChange> without_mask(const Job& job) {
  if (job.framework != k_name || job.layout.pp == 1 || !options(job).attention_mask) {
    return {};
  }
  Job changed = job;
  options(changed).attention_mask = false;
  return {{std::move(changed), "Do not send the attention mask between stages",
           "do not call engine.set_has_attention_mask(True); make the mask in each layer"}};
}

}  // namespace

std::string setting_text(const Job& job, Setting setting) {
  const std::string_view place = rules_of(job).advice.place;
  switch (setting) {
    case Setting::zero_stage:
      return fmt::format("zero_optimization.stage: {} {}", job.train.zero_stage, place);
    case Setting::recompute:
      return job.train.recompute == Recompute::full ? "checkpoint each block in the training script"
                                                    : "do not checkpoint blocks in the training script";
    case Setting::whole_activations:
      return fmt::format("partition_activations: false {}", place);
    case Setting::bucket:
      return fmt::format("zero_optimization.reduce_bucket_size: {} {}", options(job).reduce_bucket_size,
                         place);
    case Setting::persistence_threshold:
      return fmt::format("zero_optimization.stage3_param_persistence_threshold: {} {}",
                         job.train.persistence_threshold, place);
    case Setting::sequence_parallel:
    case Setting::layout:
    case Setting::virtual_stages:
      break;
  }
  return "";
}

std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic) {
  const std::string_view place = rules_of(job).advice.place;
  switch (topic) {
    case AdviceTopic::overlap:
      return overlapping(job, place);
    case AdviceTopic::gradient_reduction:
      return less_reduced(job, place);
    case AdviceTopic::attention_mask:
      return without_mask(job);
    case AdviceTopic::gathering:
      return gathered_less(job, place);
    case AdviceTopic::gradient_dtype:
      return narrower_gradients(job, place);
    case AdviceTopic::sharding:
    case AdviceTopic::units:
    case AdviceTopic::loss:
    case AdviceTopic::accumulation:
    case AdviceTopic::loss_chunks:
    case AdviceTopic::experts:
    case AdviceTopic::schedule:
      break;
  }
  return {};
}

}  // namespace commlens::deepspeed
