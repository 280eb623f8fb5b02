#include "commlens/frameworks/torchtitan/checks.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/not_covered.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/frameworks/torchtitan/modules.hpp"
#include "commlens/frameworks/torchtitan/registry.hpp"

namespace commlens::torchtitan {
namespace {

constexpr std::string_view k_recorded_torch = "2.15.0";

Result<void> refuse(bool is_refused, std::string message) {
  return is_refused ? Result<void>(failure(std::move(message))) : Result<void>();
}

Result<void> check_model(const Job& job) {
  const ModelConfig& model = job.model;
  if (model.family != Family::llama) {
    return not_covered("the torchtitan rules have the llama family alone; use a model with gated MLPs");
  }
  if (model.parallel_residual || model.positions == Positions::learned) {
    return failure("torchtitan has no model with parallel residuals or learned positions");
  }
  if (job.train.zero_stage > 0) {
    return not_covered(
        fmt::format("torchtitan has no ZeRO stages; leave --zero {} out", job.train.zero_stage));
  }
  if (job.train.dtype != DType::fp32 && job.train.dtype != DType::bf16) {
    return failure(
        fmt::format("torchtitan trains in fp32 or bf16 (training.dtype), not {}", name_of(job.train.dtype)));
  }
  const bool ties_apart = model.tied_embeddings && job.layout.pp > 1;
  if (ties_apart) {
    return failure("torchtitan refuses tied embeddings with a pipeline; set pp to 1");
  }
  return refuse(job.layout.replicated_tp || job.layout.replicate > 1,
                "torchtitan has no replicated model-parallel ranks");
}

/// The sequence that one context rank has is cut into chunks, and split over tensor ranks.
Result<void> check_sequence(const Job& job) {
  const Options& own = options(job);
  const std::int64_t sequence = job.model.sequence / job.layout.cp;
  if (own.loss_chunks > 0 && sequence % own.loss_chunks != 0) {
    return failure(
        fmt::format("a sequence of {} on each context rank is not divisible by the {} chunks of the "
                    "loss; change --seq or loss.num_chunks",
                    sequence, own.loss_chunks));
  }
  const std::int64_t halves = job.layout.cp > 1 ? 2 * job.layout.cp : 1;  // of the head-tail balance
  const bool splits = job.layout.sequence_parallel || (job.layout.tp > 1 && job.layout.ep > 1);
  const std::int64_t parts = halves * (job.layout.sequence_parallel ? job.layout.tp : 1);
  if (job.model.sequence % parts != 0) {
    return failure(
        fmt::format("the sequence {} is not divisible by {}, 2 x cp and the tensor ranks that "
                    "split it (trainer.py)",
                    job.model.sequence, parts));
  }
  return refuse(splits && sequence % job.layout.tp != 0,
                fmt::format("a sequence of {} on each context rank is not divisible by tp {}", sequence,
                            job.layout.tp));
}

Result<void> check_experts(const Job& job) {
  if (job.layout.ep == 1 && job.model.experts == 0) {
    return {};
  }
  const std::int64_t hidden = job.model.expert_hidden();
  if (!shards_second_dimension(job)) {
    return {};
  }
  const std::int64_t tp = job.layout.ep > 1 ? 1 : job.layout.tp;
  const std::int64_t ranks =
      job.layout.ep > 1 ? expert_shard_ranks(job) : job.layout.dp / options(job).replicate * job.layout.cp;
  const std::int64_t of_w2 = job.model.hidden;
  return refuse(hidden / tp % ranks != 0 || of_w2 % ranks != 0,
                fmt::format("{} ranks shard the {} experts along their second dimension, of {} and {}, which "
                            "they must divide",
                            ranks, job.model.experts, hidden / tp, of_w2));
}

Result<void> check_pipeline(const Job& job) {
  if (job.layout.pp == 1) {
    return {};
  }
  pytorch::PipelineShape shape = pytorch::pipeline_shape(job);
  const std::int64_t passes = options(job).accumulation_steps;
  if (shape.micro_batches % passes != 0) {
    return failure(
        fmt::format("{} micro-batches are not {} passes of the pipeline", shape.micro_batches, passes));
  }
  shape.micro_batches /= passes;
  if (const Result<void> ok = pytorch::check(shape); !ok) {
    return ok;
  }
  const std::int64_t stages = shape.stages();
  const Options& own = options(job);
  const std::int64_t least =
      (job.model.layers + own.first_stage_less_layers + own.last_stage_less_layers) / stages;
  if (least < std::max({own.first_stage_less_layers, own.last_stage_less_layers, std::int64_t{1}})) {
    return failure(
        fmt::format("{} layers, with the {} and {} that embedding and head count for, do not fill "
                    "{} pipeline stages; use a smaller --pp or fewer stages per rank",
                    job.model.layers, own.first_stage_less_layers, own.last_stage_less_layers, stages));
  }
  const bool splits_passes = shape.schedule == pytorch::PipelineSchedule::zbv_zero_bubble ||
                             shape.schedule == pytorch::PipelineSchedule::interleaved_zero_bubble ||
                             shape.schedule == pytorch::PipelineSchedule::dual_pipe_v;
  return refuse(splits_passes && job.train.recompute != Recompute::none,
                "schedules that split backward passes fail where activations are computed again (Trying to "
                "backward an extra time); use --recompute none");
}

}  // namespace

Result<void> check(const Job& job) {
  constexpr std::array checks = {check_model, check_sequence, check_experts, check_pipeline};
  for (const auto each : checks) {
    if (const Result<void> ok = each(job); !ok) {
      return ok;
    }
  }
  return {};
}

std::vector<std::string> never_recorded(const Job& job) {
  std::vector<std::string> reasons;
  const Options& own = options(job);
  if (own.dispatcher != Dispatcher::all_to_all && job.layout.ep > 1) {
    reasons.emplace_back("experts whose tokens are sent by kernels, which no process group sees");
  }
  if (own.checkpoints.is_used && own.checkpoints.is_async) {
    reasons.emplace_back("asynchronous checkpoints");
  }
  if (flavour_like(job.model) == nullptr) {
    reasons.emplace_back("a model that torchtitan does not come with");
  }
  if (!own.torch_version.empty() && own.torch_version != k_recorded_torch) {
    reasons.push_back(fmt::format("PyTorch {} under torchtitan", shown_text(own.torch_version)));
  }
  if (own.is_offloaded) {
    reasons.emplace_back("offloaded parameters");
  }
  return reasons;
}

}  // namespace commlens::torchtitan
