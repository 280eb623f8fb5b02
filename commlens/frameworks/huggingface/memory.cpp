// What ranks of the Trainer hold at their fullest moment: model states as FSDP or DDP keep them, and what
// autograd saves of transformers' modules.
#include "commlens/frameworks/memory.hpp"

#include <algorithm>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/modules.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/writer.hpp"
#include "commlens/frameworks/torch/memory_units.hpp"

namespace commlens::huggingface {
namespace {

/// Of what passes between modules: autocast and FSDP's policy make it the type of mixed precision.
std::int64_t element_bytes(const Job& job) {
  return size_of(options(job).mixed_precision.value_or(job.train.dtype));
}

/// Width of what all tokens pass in the feed-forward half of layer `layer`.
std::int64_t inner_width(const ModelConfig& model, std::int64_t layer) {
  return has_experts(model, layer) ? model.expert_hidden() * (model.top_k + model.shared_experts)
                                   : model.ffn_hidden;
}

/// Of one layer, per token. Norms work in fp32 and keep their input so (LlamaRMSNorm.forward).
double layer_bytes(const Job& job, std::int64_t layer, Recompute recompute) {
  const ModelConfig& model = job.model;
  const auto element = static_cast<double>(element_bytes(job));
  const auto hidden = static_cast<double>(model.hidden);
  if (recompute == Recompute::full) {
    return element * hidden;
  }
  const std::int64_t width =
      model.latent.is_used() ? model.latent.nope_dim + model.latent.rope_dim : model.head_dim;
  // Queries, keys and values of every head (the few keys are repeated), and the output of attention.
  const auto attention = static_cast<double>(4 * model.heads * width);
  // Both products of the gated unit, the activation and their product.
  const auto inner = static_cast<double>(4 * inner_width(model, layer));
  const double scores = attention_of(job) == Attention::eager
                            ? element * static_cast<double>(model.heads * model.sequence)
                            : 4 * static_cast<double>(model.heads);
  constexpr double norms = 2;
  const double kept_of_norm = (4 + 2 * element) * hidden + 4;
  return norms * kept_of_norm + (element * (attention + inner) + scores) / static_cast<double>(job.layout.tp);
}

Bytes layers_bytes(const Job& job) {
  double sum = 0;
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer) {
    sum += layer_bytes(job, layer, job.train.recompute);
  }
  return bytes_of(sum * static_cast<double>(job.train.micro_batch * job.model.sequence));
}

/// Input of the output, the logits, their logarithm of the softmax in fp32 and its gradient.
Bytes logits_bytes(const Job& job) {
  const auto element = static_cast<double>(element_bytes(job));
  const double per_token = element * static_cast<double>(job.model.hidden) +
                           (element + 4 + 4) * static_cast<double>(job.model.vocab);
  return bytes_of(per_token * static_cast<double>(job.train.micro_batch * job.model.sequence));
}

/// Copies of the weights that autocast keeps until the forward pass is over.
Bytes autocast_bytes(const Job& job, const std::vector<pytorch::Module>& modules) {
  const Options& own = options(job);
  if (!own.mixed_precision || pytorch::options(job).fsdp.is_used || job.train.dtype == *own.mixed_precision) {
    return {};
  }
  std::int64_t elements = 0;
  for (const pytorch::Module& module : modules) {
    for (const pytorch::Parameter& parameter : module.parameters) {
      elements += parameter.dimensions > 1 ? parameter.count() : 0;
    }
  }
  return Elements{elements} * *own.mixed_precision;
}

MemoryEstimate of_stage(const Job& job, std::int64_t /*stage*/) {
  const std::vector<pytorch::Module> modules = model_modules(job);
  const std::int64_t shard = pytorch::options(job).fsdp.is_used ? pytorch::data_shard(job) : 1;
  const pytorch::Units units(job, modules, shard_units(job, modules, {.shard_ranks = shard}));
  const Bytes activations = layers_bytes(job);
  const Moment head{.activations = activations,
                    .logits = logits_bytes(job),
                    .buffers = units.in_use(units.head()) + autocast_bytes(job, modules)};
  Moment layer{.activations = activations, .buffers = units.in_use(units.last_block())};
  if (job.train.recompute == Recompute::full) {
    layer.working = bytes_of(layer_bytes(job, job.model.layers - 1, Recompute::none) *
                             static_cast<double>(job.train.micro_batch * job.model.sequence));
  }
  return with_moment(units.states(), fuller(fuller(head, layer), {.buffers = units.at_end()}));
}

}  // namespace

MemoryRules memory_rules() { return {.of_stage = of_stage}; }

}  // namespace commlens::huggingface
