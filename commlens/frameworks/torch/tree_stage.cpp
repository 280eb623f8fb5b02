#include "commlens/frameworks/torch/tree_stage.hpp"

#include <algorithm>
#include <string_view>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {
namespace {

using Kind = Module::Kind;

bool is_trainable(const Module& module, std::string_view end) {
  return std::any_of(module.parameters.begin(), module.parameters.end(), [&](const Parameter& parameter) {
    return parameter.is_trainable && parameter.name.ends_with(end);
  });
}

/// Which tensors of a block of the llama tree need gradients: autograd goes no further back than those.
struct BlockNeeds {
  bool attention_input = true;  // normalised
  bool attention = true;        // queries, keys or values
  bool attention_output = true;
  bool feed_forward_input = true;  // normalised
  bool feed_forward_output = true;
};

BlockNeeds needs_of(const Module& block, bool input_needs) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return is_trainable(block, name); });
  };
  BlockNeeds needs;
  needs.attention_input = input_needs || any({".attention_norm.weight"});
  needs.attention = needs.attention_input || any({".wq.weight", ".wk.weight", ".wv.weight"});
  needs.attention_output = needs.attention || any({".wo.weight"});
  needs.feed_forward_input = input_needs || needs.attention_output || any({".ffn_norm.weight"});
  needs.feed_forward_output = needs.feed_forward_input || any({".w1.weight", ".w2.weight", ".w3.weight"});
  return needs;
}

}  // namespace

TreeStage::TreeStage(ProgramBuilder& out, const Groups& groups, std::int64_t stage, std::int64_t stages)
    : out_(out),
      groups_(groups),
      job_(out.job()),
      options_(options(out.job())),
      modules_(stage_modules(out.job(), stage, stages)),
      activation_dtype_(pytorch::activation_dtype(out.job())),
      tokens_(job_.train.micro_batch * job_.model.sequence / job_.layout.cp),
      work_(out) {
  if (options_.fsdp.is_used) {
    shards_ = std::make_unique<ShardedStage>(out, groups, modules_);
  }
}

Elements TreeStage::boundary() const {
  const std::int64_t parts = job_.layout.sequence_parallel ? job_.layout.tp : 1;
  return {tokens_ / parts * job_.model.hidden};
}

void TreeStage::gather_sequence() {
  out_.all_gather(groups_.tensor, {tokens_ * job_.model.hidden / job_.layout.tp}, activation_dtype_,
                  k_tensor_gather, "activations");
}

void TreeStage::scatter_sequence() {
  out_.set_reduction(Reduction::sum);
  out_.reduce_scatter(groups_.tensor, {tokens_ * job_.model.hidden / job_.layout.tp}, activation_dtype_,
                      k_tensor_reduce_scatter, "activations");
}

void TreeStage::sum_activations(const Rule& rule) {
  out_.set_reduction(Reduction::sum);
  out_.all_reduce(groups_.tensor, {tokens_ * job_.model.hidden}, activation_dtype_, rule, "activations");
}

/// Keys and values of this rank's tokens go around the ring.
void TreeStage::exchange(DType dtype, const Rule& rule) {
  const ModelConfig& model = job_.model;
  const std::int64_t keys = tokens_ * model.heads / job_.layout.tp * model.head_dim;
  out_.all_to_all(groups_.context, {2 * keys}, dtype, rule, "keys and values");
}

void TreeStage::attention_forward() {
  if (job_.layout.cp == 1) {
    return;
  }
  const ModelConfig& model = job_.model;
  const std::int64_t keys = tokens_ * model.heads / job_.layout.tp * model.head_dim;
  if (options_.ring == RingMethod::all_gather) {
    out_.all_gather(groups_.context, {2 * keys}, activation_dtype_, k_context_gather, "keys and values");
    return;
  }
  if (options_.ring == RingMethod::kv_all_gather) {
    for (const char* const part : {"keys", "values"}) {
      out_.all_gather(groups_.context, {keys}, activation_dtype_, k_context_gather_all, part);
    }
    return;
  }
  for (std::int64_t step = 1; step < job_.layout.cp; ++step) {
    exchange(activation_dtype_, k_context_exchange);
  }
}

void TreeStage::attention_backward() {
  if (job_.layout.cp == 1) {
    return;
  }
  if (options_.ring == RingMethod::kv_all_gather) {
    const std::int64_t keys = tokens_ * job_.model.heads / job_.layout.tp * job_.model.head_dim;
    for (const char* const part : {"gradients of keys", "gradients of values"}) {
      out_.set_reduction(Reduction::sum);
      out_.reduce_scatter(groups_.context, {keys}, activation_dtype_, k_context_reduce, part);
    }
    return;
  }
  const bool gathers = options_.ring == RingMethod::all_gather;
  if (gathers) {
    attention_forward();
  }
  for (std::int64_t step = 1; step <= job_.layout.cp; ++step) {
    if (!gathers && step < job_.layout.cp) {
      exchange(activation_dtype_, k_context_exchange);
    }
    exchange(DType::fp32, k_context_gradients);
  }
}

void TreeStage::forward_block(const Module& module, bool is_recomputed) {
  const bool has_tensor = job_.layout.tp > 1;
  const bool is_sequence = job_.layout.sequence_parallel;
  work_.write(ModulePart::ln1, Pass::forward);
  if (has_tensor && is_sequence) {
    gather_sequence();
  }
  work_.write(ModulePart::qkv, Pass::forward);
  attention_forward();
  const bool has_more = module.has_feed_forward;
  work_.write(ModulePart::attention, Pass::forward);
  // What is computed again ends before the last product and its message: no gradient needs their result
  // (torch 2.15 utils/checkpoint.py:1313, early_stop).
  if (!is_recomputed || has_more) {
    work_.write(ModulePart::proj, Pass::forward);
  }
  if (has_tensor && (!is_recomputed || has_more)) {
    is_sequence ? scatter_sequence() : sum_activations(k_tensor_sum);
  }
  if (!has_more) {
    return;
  }
  work_.write(ModulePart::ln2, Pass::forward);
  if (has_tensor && is_sequence) {
    gather_sequence();
  }
  work_.forward({ModulePart::fc1, ModulePart::activation});
  if (is_recomputed) {
    return;
  }
  work_.write(ModulePart::fc2, Pass::forward);
  if (has_tensor) {
    is_sequence ? scatter_sequence() : sum_activations(k_tensor_sum);
  }
}

void TreeStage::recompute(const Module& module) {
  if (job_.train.recompute != Recompute::full) {
    return;
  }
  const std::int32_t micro_batch = out_.micro_batch();
  out_.set_phase(Phase::recompute, micro_batch);
  forward_block(module, true);
  out_.set_phase(Phase::backward, micro_batch);
}

/// Gradients of what the linears that split their rows take: each has its input's gradient summed, with
/// sequence parallelism all of them together.
void TreeStage::end_of_inputs(bool is_needed, int linears) {
  if (job_.layout.tp == 1 || !is_needed) {
    return;
  }
  if (job_.layout.sequence_parallel) {
    scatter_sequence();
    return;
  }
  for (int linear = 0; linear < linears; ++linear) {
    sum_activations(k_tensor_input_sum);
  }
}

void TreeStage::backward_block(const Module& module, bool input_needs) {
  const bool gathers = job_.layout.tp > 1 && job_.layout.sequence_parallel;
  const BlockNeeds needs = job_.model.family == Family::llama ? needs_of(module, input_needs) : BlockNeeds{};
  const bool has_more = module.has_feed_forward;
  if (gathers && (has_more ? needs.feed_forward_output : needs.attention_output)) {
    gather_sequence();  // of the block's output: it needs nothing that is computed again
  }
  recompute(module);
  if (has_more) {
    work_.backward({ModulePart::fc2, ModulePart::activation, ModulePart::fc1});
    end_of_inputs(needs.feed_forward_input, job_.model.gated_mlp ? 2 : 1);
    work_.backward({ModulePart::ln2});
    if (gathers && needs.attention_output) {
      gather_sequence();
    }
  }
  work_.backward({ModulePart::proj, ModulePart::attention});
  if (needs.attention) {
    attention_backward();
  }
  work_.backward({ModulePart::qkv});
  end_of_inputs(needs.attention_input, 3);
  work_.backward({ModulePart::ln1});
}

void TreeStage::forward_output() {
  const ModelConfig& model = job_.model;
  const bool has_tensor = job_.layout.tp > 1;
  if (has_tensor && job_.layout.sequence_parallel) {
    gather_sequence();
  }
  work_.write(ModulePart::head, Pass::forward);
  if (has_tensor && options_.tensor.loss_parallel) {
    for (const Reduction reduction : {Reduction::max, Reduction::sum, Reduction::sum}) {
      out_.set_reduction(reduction);
      out_.all_reduce(groups_.tensor, {tokens_}, DType::fp32, k_tensor_loss, "loss");
    }
  } else if (has_tensor) {
    out_.all_gather(groups_.tensor, {tokens_ * ceil_div(model.vocab, job_.layout.tp)}, activation_dtype_,
                    k_tensor_logits, "logits");
  }
  work_.write(ModulePart::loss, Pass::forward);
}

void TreeStage::forward_messages(const Module& module) {
  const bool has_tensor = job_.layout.tp > 1;
  switch (module.kind) {
    case Kind::embedding:
      work_.write(ModulePart::embedding, Pass::forward);
      if (has_tensor) {
        job_.layout.sequence_parallel ? scatter_sequence() : sum_activations(k_tensor_sum);
      }
      return;
    case Kind::block:
      forward_block(module, false);
      return;
    case Kind::norm:
      work_.write(ModulePart::final_norm, Pass::forward);
      return;
    case Kind::output:
      forward_output();
      return;
    case Kind::positions:
    case Kind::input_norm:
      return;
  }
}

bool TreeStage::input_needs_gradient(std::size_t module) const {
  return modules_.front().kind != Kind::embedding ||
         std::any_of(modules_.begin(), modules_.begin() + static_cast<std::ptrdiff_t>(module),
                     [](const Module& earlier) {
                       return std::any_of(
                           earlier.parameters.begin(), earlier.parameters.end(),
                           [](const Parameter& parameter) { return parameter.has_gradient(); });
                     });
}

void TreeStage::backward_messages(std::size_t at) {
  const Module& module = modules_[at];
  const bool has_tensor = job_.layout.tp > 1;
  if (!input_needs_gradient(at + 1)) {
    return;
  }
  switch (module.kind) {
    case Kind::output:
      work_.backward({ModulePart::loss, ModulePart::head});
      end_of_inputs(input_needs_gradient(at), 1);
      return;
    case Kind::norm:
      work_.backward({ModulePart::final_norm});
      return;
    case Kind::block:
      backward_block(module, input_needs_gradient(at));
      return;
    case Kind::embedding:
      if (has_tensor && job_.layout.sequence_parallel) {
        gather_sequence();
      }
      work_.backward({ModulePart::embedding});
      return;
    case Kind::positions:
    case Kind::input_norm:
      return;
  }
}

void TreeStage::forward() {
  if (shards_) {
    shards_->begin_forward();
  }
  for (std::size_t at = 0; at < modules_.size(); ++at) {
    if (!modules_[at].is_used) {
      continue;
    }
    if (shards_) {
      shards_->before_forward(at);
    }
    forward_messages(modules_[at]);
    if (shards_) {
      shards_->after_forward(at);
    }
  }
  if (shards_) {
    shards_->end_forward();
  }
}

void TreeStage::backward() {
  if (shards_) {
    shards_->begin_backward();
  }
  for (std::size_t at = modules_.size(); at-- > 0;) {
    const Module& module = modules_[at];
    if (!module.is_used) {
      continue;
    }
    if (shards_) {
      shards_->before_backward(at);
    }
    backward_messages(at);
    if (shards_) {
      shards_->after_backward(at);
    }
    if (ddp_ != nullptr) {
      ddp_->after_backward(at);
    }
  }
  if (shards_) {
    shards_->end_backward();
  }
  if (ddp_ != nullptr) {
    ddp_->end_backward();
  }
}

Elements TreeStage::updated() const {
  if (shards_) {
    return shards_->updated();
  }
  std::int64_t elements = 0;
  for (const Module& module : modules_) {
    for (const Parameter& parameter : module.parameters) {
      elements += parameter.is_trainable ? parameter.count() : 0;
    }
  }
  return {elements};
}

}  // namespace commlens::pytorch
