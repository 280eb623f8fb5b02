// The rule set of transformers' Trainer on accelerate and PyTorch (docs/frameworks/huggingface.md).
#include <array>

#include <fmt/format.h>

#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/writer.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::huggingface {
namespace {

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> /*stages*/,
                                         Plan& plan) {
  return write_job(job, plan);
}

Bytes bucket(const Job& job) {
  constexpr Bytes usual{std::int64_t{25} << 20};
  return pytorch::options(job).ddp.is_used ? options(job).ddp.bucket_cap.value_or(usual) : Bytes{};
}

Result<void> set_bucket(Job& job, Bytes bucket) {
  if (options(job).fsdp.is_used) {
    return failure("--bucket is ddp_bucket_cap_mb, which FSDP does not have");
  }
  options(job).ddp.bucket_cap = bucket;
  return {};
}

std::string sharding_text(const Job& job) {
  const pytorch::Options& torch = pytorch::options(job);
  if (torch.ddp.is_used) {
    const std::optional<DType>& mixed = options(job).mixed_precision;
    return mixed ? fmt::format("DDP, autocast to {}", name_of(*mixed)) : "DDP";
  }
  if (!torch.fsdp.is_used) {
    return "states not sharded";
  }
  const std::int64_t shard = pytorch::data_shard(job);
  const std::int64_t replicas = job.layout.dp / shard;
  const std::optional<DType>& mixed = options(job).mixed_precision;
  return fmt::format("FSDP{} over {} rank{}{}{}", torch.fsdp.version, shard, shard == 1 ? "" : "s",
                     replicas == 1 ? "" : fmt::format(", {} replicas", replicas),
                     mixed ? fmt::format(" in {}", name_of(*mixed)) : "");
}

bool reduces_every_micro_batch(const Job& job) { return options(job).syncs_each_batch; }

/// The equations know neither FSDP2 nor the messages of a tp_plan.
bool fits_equations(const Job& job) { return !pytorch::options(job).fsdp.is_used && job.layout.tp == 1; }

}  // namespace

FrameworkRules rules() {
  static constexpr std::array versions = {recorded_version("5.23.0")};
  FrameworkRules rules{.name = k_name,
                       .engine = k_name,
                       .versions = {versions.begin(), versions.end()},
                       .base = " on accelerate 1.15.0 and PyTorch 2.15.0",
                       .check = check_job,
                       .unverified = never_recorded,
                       .write = write,
                       .takes_newer_models = true,
                       .fits_equations = fits_equations,
                       .settings = {.adopt = adopt,
                                    .prepare = prepare,
                                    .settle = settle,
                                    .bucket = bucket,
                                    .set_bucket = set_bucket,
                                    .sharding_text = sharding_text,
                                    .reduces_every_micro_batch = reduces_every_micro_batch,
                                    .pads_to_tensor_ranks = true},
                       .memory = memory_rules(),
                       .advice = advice_texts(),
                       .variations = add_variations,
                       .case_file = {.read_job = read_case},
                       .causes = causes()};
  return rules;
}

}  // namespace commlens::huggingface
