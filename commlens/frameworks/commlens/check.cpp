#include "commlens/frameworks/commlens/check.hpp"

#include <fmt/format.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens::trainer {
namespace {

using Check = Result<void>;

Check check_model(const Job& job) {
  const ModelConfig& model = job.model;
  if (model.experts > 0) {
    return not_covered("the commlens rules have no mixtures of experts");
  }
  const bool is_gpt = model.family == Family::gpt && !model.gated_mlp && model.norm_bias &&
                      model.linear_bias && model.qkv_bias && model.final_norm &&
                      model.kv_heads == model.heads;
  if (!is_gpt) {
    return not_covered(
        "the commlens rules have models of family gpt only (LayerNorm, biases, as many key/value heads as "
        "heads)");
  }
  return {};
}

Check check_layout(const Job& job) {
  const ParallelLayout& layout = job.layout;
  if (layout.cp > 1) {
    return not_covered("the commlens rules do not cover context parallelism (--cp); use --cp 1");
  }
  if (layout.ep > 1) {
    return not_covered("the commlens rules do not cover expert parallelism (--ep); use --ep 1");
  }
  if (layout.replicate > 1 || job.layout.replicated_tp) {
    return not_covered(
        "framework commlens does not know ranks that replicate a model-parallel axis (replicate)");
  }
  if (layout.sequence_parallel && job.model.sequence % layout.tp != 0) {
    return failure(fmt::format("sequence {} is not divisible by tp {}, which sequence parallelism needs",
                               job.model.sequence, layout.tp));
  }
  return {};
}

Check check_pipeline(const Job& job) {
  const ParallelLayout& layout = job.layout;
  if (job.train.schedule == Schedule::interleaved && layout.virtual_stages == 1) {
    return failure("the interleaved schedule needs --virtual-stages of 2 or more");
  }
  const std::int64_t parts = layout.pp * layout.virtual_stages;
  if (job.model.layers < parts) {
    return failure(
        fmt::format("{} layers do not fill {} pipeline parts (pp x virtual stages), which "
                    "framework commlens needs; use a smaller --pp",
                    job.model.layers, parts));
  }
  if (layout.virtual_stages == 1) {
    return {};
  }
  if (layout.pp == 1) {
    return failure("the interleaved schedule needs --pp of 2 or more");
  }
  if (job.model.layers % parts != 0) {
    return failure(
        fmt::format("the interleaved schedule needs the {} layers to be divisible by pp x virtual "
                    "stages = {}",
                    job.model.layers, parts));
  }
  if (job.train.micro_batches % layout.pp != 0) {
    return failure(
        fmt::format("the interleaved schedule needs micro-batches ({}) divisible by pp ({}); change "
                    "--micro-batches",
                    job.train.micro_batches, layout.pp));
  }
  return {};
}

Check check_sharding(const Job& job) {
  const Options& own = options(job);
  const int stage = job.train.zero_stage;
  if (own.bucket.value < 1) {
    return failure(fmt::format("--bucket {}: a bucket holds at least one byte", own.bucket.value));
  }
  if (job.train.persistence_threshold < 0) {
    return failure(
        fmt::format("--persistence-threshold {}: it must not be negative", job.train.persistence_threshold));
  }
  if (own.all_reduce_gradients && stage != 1 && stage != 2) {
    return failure(
        fmt::format("--deepspeed-like reduces the gradients of ZeRO-1 and 2 otherwise; use --zero 1 "
                    "or 2 instead of {}",
                    stage));
  }
  const char* const plus_plus = job.train.hpz != 1              ? "--hpz"
                                : job.train.quantized_weights   ? "--qwz"
                                : job.train.quantized_gradients ? "--qgz"
                                                                : nullptr;
  if (plus_plus != nullptr && stage != 3) {
    return failure(fmt::format("{} is part of ZeRO++, which needs --zero 3, not {}", plus_plus, stage));
  }
  if (job.train.hpz < 1 || job.layout.dp % job.train.hpz != 0) {
    return failure(fmt::format("--hpz {}: it must divide dp {}", job.train.hpz, job.layout.dp));
  }
  return {};
}

Check check_recomputation(const Job& job) {
  if (!job.train.partition_activations) {
    return {};
  }
  if (job.train.recompute != Recompute::full) {
    return failure("--partition-activations splits what full recomputation stores; use --recompute full");
  }
  if (job.layout.tp == 1) {
    return failure("--partition-activations splits stored inputs over tensor ranks; use --tp of 2 or more");
  }
  if (job.layout.sequence_parallel) {
    return failure(
        "--partition-activations: sequence parallelism splits the stored inputs already; use one of them");
  }
  const std::int64_t activation = job.train.micro_batch * job.model.sequence * job.model.hidden;
  if (activation % job.layout.tp != 0) {
    return failure(fmt::format("--partition-activations: an input of {} elements is not divisible by tp {}",
                               activation, job.layout.tp));
  }
  return {};
}

}  // namespace

Result<void> check(const Job& job) {
  for (const auto part : {check_model, check_layout, check_pipeline, check_sharding, check_recomputation}) {
    if (const Check ok = part(job); !ok) {
      return ok;
    }
  }
  return {};
}

}  // namespace commlens::trainer
