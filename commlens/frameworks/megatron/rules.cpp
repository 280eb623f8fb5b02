// The rule set of Megatron-LM core_v0.7.0: GPTModel, its schedules, DistributedDataParallel and optimizers.
// The source of a rule is beside it; docs/rules.md has the limits. Start traffic, data broadcasts and loss
// reductions belong to the training driver and were not recorded; they are not predicted.

#include <fmt/format.h>

#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/megatron/source.hpp"
#include "commlens/frameworks/megatron/stage.hpp"
#include "commlens/plan/local_parameters.hpp"

namespace commlens::megatron {
namespace {

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  const ParameterList all(job.model);
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    ProgramBuilder out(plan);
    programs.push_back({{}, {stage_iteration(out, job, all, stage)}});
  }
  return programs;
}

Result<void> check_experts(const Job& job) {
  if (job.model.experts == 0) {
    return job.layout.ep > 1 ? failure("expert parallelism needs experts; add num-experts or use --ep 1")
                             : Result<void>{};
  }
  if (job.layout.dp % job.layout.ep != 0 || job.model.experts % job.layout.ep != 0) {
    return failure(fmt::format("ep {} must divide dp {} and the {} experts", job.layout.ep, job.layout.dp,
                               job.model.experts));
  }
  if (options(job).moe_dispatcher != "allgather" && options(job).moe_dispatcher != "alltoall") {
    return failure(fmt::format("moe-token-dispatcher-type '{}' is not one of allgather, alltoall",
                               options(job).moe_dispatcher));
  }
  if (job.layout.tp > 1 && !job.layout.sequence_parallel) {
    return failure(
        "Megatron core 0.7 needs sequence parallelism for experts with tensor parallelism; add --sp or use "
        "--tp 1");
  }
  return {};
}

Result<void> check(const Job& job) {
  if (job.layout.cp > 1) {
    return failure("the megatron rules do not cover context parallelism (--cp); use --cp 1");
  }
  if (job.layout.replicate > 1 || job.model.parallel_residual) {
    return failure("Megatron core 0.7 has neither replicated model-parallel ranks nor a parallel residual");
  }
  if (job.train.zero_stage > 1) {
    return failure(
        fmt::format("Megatron core 0.7 has no ZeRO-{}; use --zero 0, or 1 for its distributed optimizer",
                    job.train.zero_stage));
  }
  const std::int64_t chunks = job.layout.pp * job.layout.virtual_stages;
  if (job.model.layers % chunks != 0) {
    return failure(fmt::format("Megatron needs the {} layers to be divisible by pp x virtual stages = {}",
                               job.model.layers, chunks));
  }
  if (job.layout.virtual_stages > 1 && (job.layout.pp <= 2 || job.train.micro_batches % job.layout.pp != 0)) {
    return failure(
        fmt::format("the interleaved schedule needs pp > 2 and micro-batches ({}) divisible by pp ({})",
                    job.train.micro_batches, job.layout.pp));
  }
  if (job.train.schedule == Schedule::gpipe) {
    return failure("Megatron core 0.7 has no GPipe schedule; use --schedule 1f1b");
  }
  if (job.train.schedule == Schedule::interleaved && job.layout.virtual_stages == 1) {
    return failure("the interleaved schedule needs --virtual-stages > 1");
  }
  if (job.layout.sequence_parallel && job.model.sequence % job.layout.tp != 0) {
    return failure(fmt::format("sequence parallelism needs the sequence length {} to be divisible by tp {}",
                               job.model.sequence, job.layout.tp));
  }
  return check_experts(job);
}

std::vector<std::string> unverified(const Job& job) {
  const bool experts = job.model.experts > 0;
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(job.model.family != Family::gpt, "models other than gpt");
  add(job.train.dtype == DType::fp16, "fp16's overflow flag");
  add(job.train.recompute == Recompute::full && options(job).recompute_method == "block", "block recompute");
  add(experts && job.train.zero_stage > 0, "experts with the distributed optimizer");
  add(experts && job.layout.pp > 1, "experts in a pipeline");
  add(experts && job.layout.tp > 1 && options(job).moe_dispatcher == "allgather",
      "the allgather dispatcher with tensor ranks");
  add(options(job).overlap_grad_reduce, "overlap-grad-reduce");
  add(!job.layout.has_default_order(), "another order of ranks");
  return reasons;
}

bool has_sequence_parallelism(const Job&) { return true; }

/// The tag, its branch and the package.
constexpr KnownVersion k_known_version{k_version.view(), k_version.view(), k_version.view(),
                                       k_joined<k_version, " core_r0.7.0 0.7.0">.data()};

}  // namespace

FrameworkRules rules() {
  return {
      .name = k_name,
      .engine = k_name,
      .versions = {k_known_version},
      .base = "",
      .check = check,
      .unverified = unverified,
      .write = write,
      .takes_any_order = true,
      .settings = {.adopt = adopt, .settle = settle, .has_sequence_parallelism = has_sequence_parallelism},
      .memory = {.gradient_bytes = gradient_bytes},
      .advice = {.place = "of Megatron", .setting = setting_text, .changes = advised_changes},
      .variations = add_variations,
      .case_file = {.arguments = k_name,
                    .read_arguments =
                        [](const ConfigNode& map, std::int64_t padded_vocab, const std::string&) {
                          return job_from_megatron(map, padded_vocab);
                        }},
      .causes = causes()};
}

}  // namespace commlens::megatron
