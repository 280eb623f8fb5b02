#include "commlens/frameworks/huggingface/tensor_plan.hpp"

#include "commlens/base/units.hpp"
#include "commlens/frameworks/huggingface/modules.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/rule_names.hpp"

namespace commlens::huggingface {

TensorPlan tensor_plan(const Job& job) {
  const ModelConfig& model = job.model;
  if (job.layout.tp == 1 || model.attention_sinks) {  // gpt_oss splits nothing but the output
    return {};
  }
  const bool is_v3 = options(job).model_type == "deepseek_v3";
  return {.splits_attention = !is_v3, .splits_mlp = true, .splits_experts = true};
}

DType TensorModel::dtype() const { return out_.job().train.dtype; }

std::int64_t TensorModel::tokens() const { return out_.job().train.micro_batch * out_.job().model.sequence; }

void TensorModel::sum(std::int64_t elements, const Rule& rule, std::string_view tag) {
  out_.set_reduction(Reduction::sum);
  out_.all_reduce(groups_.tensor, {elements}, dtype(), rule, tag);
}

/// Routers work in fp32; qwen3_moe casts their weights to the dtype of the model (modeling_qwen3_moe.py:264).
void TensorModel::sum_routing_weights() {
  const ModelConfig& model = out_.job().model;
  out_.set_reduction(Reduction::sum);
  out_.all_reduce(groups_.tensor, {tokens() * model.top_k}, model.qk_norm ? dtype() : DType::fp32,
                  k_plan_routing, "routing weights");
}

void TensorModel::sum_hidden(const Rule& rule) {
  sum(tokens() * out_.job().model.hidden, rule, "activations");
}

void TensorModel::forward_embedding() {
  work_.write(ModulePart::embedding, Pass::forward);
  if (plan_.splits_mlp) {
    sum_hidden(k_plan_embedding);
  }
}

void TensorModel::forward_mlp(std::int64_t layer, bool is_recomputed) {
  const ModelConfig& model = out_.job().model;
  const bool is_mixture = has_experts(model, layer);
  work_.forward(
      {ModulePart::ln2, ModulePart::router, ModulePart::fc1, ModulePart::activation, ModulePart::fc2});
  const int sums = !is_mixture ? 1 : model.shared_experts > 0 ? 2 : 1;
  // What is computed again ends before the last message, whose result nothing needs.
  for (int at = 0; plan_.splits_mlp && at < sums - (is_recomputed ? 1 : 0); ++at) {
    sum_hidden(is_mixture && at == 0 ? k_plan_experts : k_plan_output);
  }
}

void TensorModel::forward_block(std::int64_t layer) {
  work_.forward({ModulePart::ln1, ModulePart::qkv, ModulePart::attention, ModulePart::proj});
  if (plan_.splits_attention) {
    sum_hidden(k_plan_output);
  }
  forward_mlp(layer, false);
}

void TensorModel::forward_head() {
  const Job& job = out_.job();
  work_.forward({ModulePart::final_norm, ModulePart::head});
  if (job.layout.tp > 1) {
    out_.all_gather(groups_.tensor, {tokens() * ceil_div(job.model.vocab, job.layout.tp)}, dtype(),
                    k_plan_logits, "logits");
  }
  work_.write(ModulePart::loss, Pass::forward);
}

void TensorModel::backward_head() {
  work_.backward({ModulePart::loss, ModulePart::head});
  if (out_.job().layout.tp > 1) {
    sum_hidden(k_plan_input);
  }
  work_.backward({ModulePart::final_norm});
}

/// Each linear that splits its rows has its input's gradient summed on its own.
void TensorModel::backward_mlp(std::int64_t layer) {
  const ModelConfig& model = out_.job().model;
  const bool is_mixture = has_experts(model, layer);
  work_.backward({ModulePart::fc2, ModulePart::activation, ModulePart::fc1});
  const int linears = !is_mixture || model.shared_experts > 0 ? 2 : 0;
  for (int at = 0; plan_.splits_mlp && at < linears; ++at) {
    sum_hidden(k_plan_input);
  }
  if (is_mixture && plan_.splits_experts) {
    sum_routing_weights();
    sum_hidden(k_plan_routing);
  }
  work_.backward({ModulePart::router, ModulePart::ln2});
}

void TensorModel::backward_attention() {
  const ModelConfig& model = out_.job().model;
  work_.backward({ModulePart::proj, ModulePart::attention, ModulePart::qkv});
  if (plan_.splits_attention && model.latent.is_used()) {
    const LatentAttention& latent = model.latent;
    sum(tokens() * latent.kv_rank, k_plan_input, "latent keys and values");
    sum(tokens() * latent.rope_dim, k_plan_rope, "keys with positions");
    sum(tokens() * (latent.query_rank > 0 ? latent.query_rank : model.hidden), k_plan_input, "queries");
  } else if (plan_.splits_attention) {
    sum_hidden(k_plan_input);
    for (int linear = 0; linear < 2; ++linear) {  // keys, then queries
      if (model.qk_norm) {
        sum(model.head_dim, k_plan_norm, "norm");
      }
      sum_hidden(k_plan_input);
    }
  }
  work_.backward({ModulePart::ln1});
}

void TensorModel::recompute(std::int64_t layer) {
  if (out_.job().train.recompute != Recompute::full) {
    return;
  }
  const std::int32_t micro_batch = out_.micro_batch();
  out_.set_phase(Phase::recompute, micro_batch);
  work_.forward({ModulePart::ln1, ModulePart::qkv, ModulePart::attention, ModulePart::proj});
  if (plan_.splits_attention) {
    sum_hidden(k_plan_output);
  }
  forward_mlp(layer, true);
  out_.set_phase(Phase::backward, micro_batch);
}

void TensorModel::backward_block(std::int64_t layer) {
  recompute(layer);
  backward_mlp(layer);
  backward_attention();
}

void TensorModel::backward_embedding() { work_.backward({ModulePart::embedding}); }

}  // namespace commlens::huggingface
