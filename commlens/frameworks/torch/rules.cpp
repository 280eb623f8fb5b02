// The rule set of PyTorch: DDP, FSDP, DTensor's tensor parallelism, context and pipeline parallelism, entered
// by the name of any of them (docs/frameworks/torch.md).
#include <algorithm>

#include <fmt/format.h>

#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/ddp_1_13.hpp"
#include "commlens/frameworks/torch/framework.hpp"
#include "commlens/frameworks/torch/memory.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/frameworks/torch/reader.hpp"
#include "commlens/frameworks/torch/variations.hpp"
#include "commlens/frameworks/torch/writer.hpp"

namespace commlens::pytorch {
namespace {

constexpr std::string_view k_ddp = "torch-ddp";
constexpr std::string_view k_fsdp = "torch-fsdp";
constexpr std::string_view k_old_version = "1.13";

std::vector<KnownVersion> ddp_versions() {
  std::vector<KnownVersion> versions = known_versions();
  versions.front().first = "2.6";
  versions.insert(versions.begin(), recorded_version(k_old_version));
  return versions;
}

/// DDP of 1.13, which has a writer of its own.
bool is_old(const Job& job) {
  const std::vector<KnownVersion> versions = ddp_versions();
  return job.framework == k_ddp &&
         choose_version(versions, versions.size() - 1, job.framework_version).index == 0;
}

Result<void> refuse(bool applies, std::string reason) {
  return applies ? Result<void>(failure(std::move(reason))) : Result<void>();
}

Result<void> check_model(const Job& job) {
  const ModelConfig& model = job.model;
  const bool is_llama = model.family == Family::llama && !model.linear_bias && !model.norm_bias;
  const bool is_gpt = model.family == Family::gpt && model.linear_bias && model.norm_bias && !model.gated_mlp;
  if (!is_llama && !is_gpt) {
    return failure(
        "the torch rules have the module trees llama (no biases, RMSNorm) and gpt (biases, "
        "LayerNorm, no gated MLP) alone");
  }
  if (model.experts > 0) {
    return failure("the torch rules have no mixtures of experts");
  }
  return refuse(job.layout.tp > 1 && !is_llama,
                "the torch rules have tensor parallelism of llama models alone");
}

Result<void> check_layout(const Job& job) {
  const ParallelLayout& layout = job.layout;
  const Options& own = options(job);
  if (layout.dp % data_shard(job) != 0) {
    return failure("the data ranks are no multiple of data_shard");
  }
  if (layout.pp > 1) {
    if (job.model.layers % (layout.pp * layout.virtual_stages) != 0) {
      return failure("the layers do not divide into the stages of the pipeline");
    }
    if (const Result<void> ok = check(pipeline_shape(job)); !ok) {
      return ok;
    }
  }
  if (layout.ep * layout.replicate > 1) {
    return failure("the torch rules have no expert parallelism and no replicated tensor ranks");
  }
  if (job.train.zero_stage > 0) {
    return failure("PyTorch has no ZeRO stages; use framework torch-fsdp");
  }
  if (layout.dp > 1 && !own.ddp.is_used && !own.fsdp.is_used) {
    return failure("several data ranks need a section ddp or fsdp");
  }
  return refuse(
      own.ddp.is_used && (own.fsdp.is_used || layout.tp * layout.cp > 1),
      "the torch rules have DDP of whole models alone, without FSDP, tensor or context parallelism");
}

Result<void> check_ddp(const Job& job) {
  const Ddp& ddp = options(job).ddp;
  const std::vector<std::int64_t>& inputs = ddp.join_inputs;
  if (!ddp.is_used) {
    return {};
  }
  if (!job.model.unused.empty() && !ddp.find_unused_parameters && !ddp.static_graph) {
    return failure(
        "DDP stops in its second iteration where parameters are unused; set "
        "find_unused_parameters or static_graph");
  }
  return refuse(!inputs.empty() && static_cast<std::int64_t>(inputs.size()) != job.layout.dp,
                "join needs the inputs of each data rank");
}

Result<void> check_fsdp(const Job& job) {
  const Options& own = options(job);
  const Fsdp& fsdp = own.fsdp;
  if (!fsdp.is_used) {
    return {};
  }
  if (std::count(fsdp.units.begin(), fsdp.units.end(), Unit::root) != 1) {
    return failure("fsdp needs the unit root, once");
  }
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  const std::int64_t part = fsdp.reshard_after_forward.size;
  const bool fits = part == 0 || job.layout.cp % part == 0 ||
                    (part % job.layout.cp == 0 && data_shard(job) % (part / job.layout.cp) == 0);
  if (!fits || part > shard) {
    return failure(
        fmt::format("reshard_after_forward {} does not divide the {} ranks of a shard group", part, shard));
  }
  if (part > 0 && job.layout.tp > 1) {
    return failure("fully_shard refuses a number for reshard_after_forward with tensor parallelism");
  }
  return refuse(job.layout.cp > 1 && job.layout.dp > data_shard(job),
                "the torch rules have no hybrid sharding with context parallelism");
}

Result<void> check_clip(const Job& job) {
  return refuse(options(job).trainer.clip && job.layout.tp > 1 && !job.layout.sequence_parallel,
                "clip_grad_norm_ fails where some gradients are DTensors and others are not: tensor "
                "parallelism without sequence parallelism");
}

Result<void> check(const Job& job) {
  if (is_old(job)) {
    return torch_ddp::check(job);
  }
  using Check = Result<void> (*)(const Job&);
  for (const Check each : {check_model, check_layout, check_ddp, check_fsdp, check_clip}) {
    if (const Result<void> ok = each(job); !ok) {
      return ok;
    }
  }
  return refuse(job.train.recompute == Recompute::selective,
                "the torch rules have no selective activation checkpointing; use full or none");
}

std::vector<std::string> unverified(const Job& job) {
  if (is_old(job)) {
    return torch_ddp::unverified(job);
  }
  return {};
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  if (is_old(job)) {
    return torch_ddp::write(job, stages, plan);
  }
  return job.layout.pp > 1 ? write_pipeline(job, stages, plan) : write_spmd(job, plan);
}

Bytes bucket(const Job& job) { return options(job).ddp.bucket_cap.value_or(torch_ddp::k_usual_cap); }

Result<void> set_bucket(Job& job, Bytes bucket) {
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
  if (job.layout.dp > 1 && !own.ddp.is_used && !own.fsdp.is_used) {
    own.ddp.is_used = job.framework == k_ddp;
    own.fsdp.is_used = !own.ddp.is_used;
  }
  own.trainer.clip = job.train.gradient_clipping > 0;
}

std::string setting_text(const Job& job, Setting setting) {
  return setting == Setting::bucket
             ? fmt::format("bucket_cap_mb={} of DistributedDataParallel", bucket(job).value >> 20)
             : "";
}

FrameworkRules rules_of_name(std::string_view name) {
  FrameworkRules rules{
      .name = name,
      .engine = name,
      .family = "torch",
      .is_first_of_family = name == k_fsdp,
      .versions = name == k_ddp ? ddp_versions() : known_versions(),
      .base = "",
      .check = check,
      .unverified = unverified,
      .write = write,
      .takes_partial_models = true,
      .settings = {.adopt = adopt,
                   .settle = settle,
                   .bucket = bucket,
                   .set_bucket = set_bucket,
                   .pads_to_tensor_ranks = true},
      .memory = memory_rules(),
      .advice = {.place = "of DistributedDataParallel", .setting = setting_text},
      .variations = add_variations,
      .case_file = {.sections = {"ddp", "fsdp", "tensor_parallel", "context_parallel", "pipeline", "trainer"},
                    .read_section = read_case_section,
                    .is_own_section = true}};
  rules.default_version = rules.versions.size() - 1;
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
