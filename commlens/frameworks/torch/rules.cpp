// The rule set of PyTorch: DDP, FSDP, DTensor's tensor parallelism, context and pipeline parallelism, entered
// by the name of any of them (docs/frameworks/torch.md).
#include <fmt/format.h>

#include "commlens/frameworks/torch/advice.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/checks.hpp"
#include "commlens/frameworks/torch/ddp_1_13.hpp"
#include "commlens/frameworks/torch/framework.hpp"
#include "commlens/frameworks/torch/memory.hpp"
#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/frameworks/torch/reader.hpp"
#include "commlens/frameworks/torch/variations.hpp"
#include "commlens/frameworks/torch/writer.hpp"

namespace commlens::pytorch {
namespace {

Result<void> check(const Job& job) { return is_of_1_13(job) ? torch_ddp::check(job) : check_job(job); }

std::vector<std::string> unverified(const Job& job) {
  return is_of_1_13(job) ? torch_ddp::unverified(job) : never_recorded(job);
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  if (is_of_1_13(job)) {
    return torch_ddp::write(job, stages, plan);
  }
  return job.layout.pp > 1 ? write_pipeline(job, stages, plan) : write_spmd(job, plan);
}

Bytes bucket(const Job& job) {
  const Ddp& ddp = options(job).ddp;
  return ddp.is_used || is_of_1_13(job) ? ddp.bucket_cap.value_or(torch_ddp::k_usual_cap) : Bytes{};
}

Result<void> set_bucket(Job& job, Bytes bucket) {
  if (job.framework != k_ddp && !options(job).ddp.is_used) {
    return failure(
        fmt::format("--bucket is bucket_cap_mb of DDP, which this job of {} does not use", job.framework));
  }
  options(job).ddp.bucket_cap = bucket;
  return {};
}

void adopt(Job& job) {
  if (job.train.zero_stage > 0) {
    job.warnings.push_back(fmt::format("{} has no ZeRO: stage {} of the configuration is skipped",
                                       job.framework, job.train.zero_stage));
    job.train.zero_stage = 0;
  }
  Options& own = options(job);
  if (job.framework == k_ddp ? own.fsdp.is_used : job.framework == k_fsdp && own.ddp.is_used) {
    std::swap(own.fsdp.is_used, own.ddp.is_used);
    own.data_shard = 0;
  }
}

/// A job that no section describes runs as the framework's name says.
void settle(Job& job) {
  Options& own = options(job);
  const bool shards_over_context = job.framework == k_fsdp && job.layout.cp > 1;
  if ((job.layout.dp > 1 || shards_over_context) && !own.ddp.is_used && !own.fsdp.is_used) {
    own.ddp.is_used = job.framework == k_ddp;
    own.fsdp.is_used = !own.ddp.is_used;
  }
  if (usual_schedule(own.pipeline.schedule) != job.train.schedule) {  // --schedule
    own.pipeline.schedule = job.train.schedule == Schedule::gpipe         ? PipelineSchedule::gpipe
                            : job.train.schedule == Schedule::interleaved ? PipelineSchedule::interleaved_1f1b
                                                                          : PipelineSchedule::one_f_one_b;
  }
  const bool is_of_model = !own.trainer.clip;  // not asked for in the section trainer
  own.trainer.clip = job.train.gradient_clipping > 0;
  if (own.trainer.clip && job.layout.pp > 1 && is_of_model) {
    job.warnings.emplace_back(
        "torch.distributed.pipelining has no norm over the stages of a pipeline: gradient clipping is "
        "skipped");
    job.train.gradient_clipping = 0;
    own.trainer.clip = false;
  }
}

/// Without no_sync.
bool reduces_every_micro_batch(const Job& job) {
  return !is_of_1_13(job) && options(job).ddp.is_used && options(job).ddp.accumulation_sync;
}

/// The equations have no parameters that are gathered as FSDP2 does, and another number of messages between
/// tensor ranks.
bool fits_equations(const Job& job) {
  return is_of_1_13(job) || (!options(job).fsdp.is_used && job.layout.tp * job.layout.cp == 1);
}

std::string sharding_text(const Job& job) {
  const Options& own = options(job);
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  if (is_of_1_13(job) || own.ddp.is_used) {
    return "DDP";
  }
  if (!own.fsdp.is_used) {
    return "states not sharded";
  }
  if (own.fsdp.is_replicate) {
    return "replicate";
  }
  const std::int64_t replicas = job.layout.dp / data_shard(job);
  return fmt::format("FSDP{} over {} rank{}{}", own.fsdp.version, shard, shard == 1 ? "" : "s",
                     replicas == 1 ? "" : fmt::format(", {} replicas", replicas));
}

/// As the usual mixed precision: gathered in bf16, gradients reduced in fp32.
void shard(Job& job, const SharedParameters& shards) {
  Options& own = options(job);
  own.data_shard = shards.ranks;
  own.fsdp.is_used = true;
  own.fsdp.param_dtype = DType::bf16;
  own.fsdp.reduce_dtype = DType::fp32;
  own.fsdp.reshard_after_forward.kind =
      shards.keeps_gathered ? ReshardAfterForward::Kind::no : ReshardAfterForward::Kind::automatic;
}

FrameworkRules rules_of_name(std::string_view name) {
  FrameworkRules rules{
      .name = name,
      .engine = name,
      .family = "torch",
      .is_first_of_family = name == k_fsdp,
      .versions = name == k_ddp ? known_versions_of_ddp() : known_versions(),
      .base = "",
      .check = check,
      .unverified = unverified,
      .write = write,
      .takes_partial_models = true,
      .fits_equations = fits_equations,
      .has_context_parallelism = name != k_ddp,
      .settings = {
          .adopt = adopt,
          .settle = settle,
          .has_sequence_parallelism = [](const Job&) { return true; },
          .bucket = bucket,
          .set_bucket = set_bucket,
          .sharding_text = sharding_text,
          .compute_dtype =
              [](const Job& job) { return is_of_1_13(job) ? job.train.dtype : activation_dtype(job); },
          .reduces_every_micro_batch = reduces_every_micro_batch,
          .pads_to_tensor_ranks = true},
      .memory = memory_rules(),
      .advice = advice_texts(),
      .variations = add_variations,
      .case_file = {.sections = {"ddp", "fsdp", "tensor_parallel", "context_parallel", "pipeline", "trainer"},
                    .read_section = read_case_section,
                    .is_own_section = true}};
  rules.default_version = rules.versions.size() - 1;
  if (name == k_fsdp) {
    rules.shard = shard;
  }
  if (name == k_ddp) {
    rules.case_file.read_layout = read_case_layout;  // of all four, read once
    rules.causes = causes();                         // the same
  }
  return rules;
}

}  // namespace

std::vector<FrameworkRules> rules() {
  std::vector<FrameworkRules> all;
  for (const std::string_view name :
       {k_ddp, k_fsdp, std::string_view("torch-tp"), std::string_view("torch-pipeline")}) {
    all.push_back(rules_of_name(name));
  }
  return all;
}

}  // namespace commlens::pytorch
