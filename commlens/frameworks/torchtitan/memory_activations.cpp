#include "commlens/frameworks/torchtitan/memory_activations.hpp"

#include <algorithm>

#include "commlens/frameworks/torchtitan/modules.hpp"

namespace commlens::torchtitan {
namespace {

constexpr double k_fp32 = 4;
constexpr double k_int64 = 8;
constexpr double k_bf16 = 2;  // of the products of experts, whatever the type of the others

double real(std::int64_t count) { return static_cast<double>(count); }

/// Widths of one block on one tensor rank, in elements a token.
class Block {
 public:
  Block(const Job& job, std::int64_t layer)
      : job_(job),
        model_(job.model),
        has_experts_(is_mixture(job, layer)),
        element_(real(size_of(pytorch::activation_dtype(job)))),
        tp_(real(job.layout.tp)),
        shared_(job.layout.sequence_parallel ? tp_ : 1) {}

  double input() const { return element_ * real(model_.hidden) / shared_; }

  LayerActivations saved_by_autograd() const {
    const double norms = 2 * (input() + k_fp32 / shared_) + normed();
    LayerActivations all{.per_token = norms + (model_.latent.is_used() ? latent_attention() : attention())};
    if (!has_experts_) {
      all.per_token += gated(real(model_.ffn_hidden)) * element_ / tp_;
      return all;
    }
    all.per_token += router() + routed_experts() + gated(shared_width()) * element_ / tp_;
    // The gate computes in fp32, on a copy of its weight.
    all.fixed = k_fp32 * real(model_.experts) * real(model_.hidden);
    return all;
  }

  /// Every second linear without a bias counts; those with one (addmm) are all saved.
  LayerActivations saved_by_selection() const {
    double sum = input() + attention_output();
    std::int64_t place = 0;
    const auto linear = [&](double width, bool has_bias) {
      place += has_bias ? 0 : 1;
      sum += has_bias || place % 2 == 1 ? width * element_ : 0;
    };
    const double hidden = real(model_.hidden);
    if (model_.latent.is_used()) {
      if (model_.latent.query_rank > 0) {
        linear(real(model_.latent.query_rank), false);
      }
      linear(latent_queries(), false);
      linear(compressed(), false);
      linear(real(model_.heads * (model_.latent.nope_dim + model_.latent.value_dim)) / tp_, false);
    } else if (options(job_).fuses_qkv) {
      linear(queries() + 2 * keys(), model_.qkv_bias);
    } else {
      linear(queries(), model_.qkv_bias);
      linear(keys(), model_.qkv_bias);
      linear(keys(), model_.qkv_bias);
    }
    linear(hidden, model_.linear_bias);  // before it is summed over tensor ranks
    if (has_experts_) {
      sum += k_fp32 * (model_.router_bias ? real(model_.experts) : 0) / routed_over();
      sum += (k_fp32 + k_int64) * real(model_.top_k) / routed_over();
    }
    const double inner = has_experts_ ? shared_width() : real(model_.ffn_hidden);
    if (inner > 0) {
      linear(inner / tp_, false);
      linear(inner / tp_, false);
      linear(hidden, false);
    }
    return {.per_token = sum};
  }

 private:
  double queries() const { return real(model_.heads * model_.head_dim) / tp_; }
  double keys() const { return real(model_.kv_heads * model_.head_dim) / tp_; }
  double latent_queries() const {
    return real(model_.heads * (model_.latent.nope_dim + model_.latent.rope_dim)) / tp_;
  }
  double compressed() const { return real(model_.latent.kv_rank + model_.latent.rope_dim); }
  double shared_width() const { return real(model_.shared_experts * model_.expert_hidden()); }
  bool divides_experts() const { return job_.layout.ep > 1; }
  /// Tensor ranks that each route tokens of their own.
  double routed_over() const { return divides_experts() ? shared_ : 1; }

  /// Results of both norms, gathered for what tensor ranks compute together; routed tokens are not.
  double normed() const {
    const double whole = element_ * real(model_.hidden);
    if (!has_experts_ || !divides_experts()) {
      return 2 * whole;
    }
    const bool is_gathered = model_.shared_experts > 0 && shared_ > 1;
    return whole + whole / shared_ + (is_gathered ? whole : 0);
  }

  /// Result and sum of each row, as the kernel saves them.
  double attention_output() const {
    const double values =
        model_.latent.is_used() ? real(model_.heads * model_.latent.value_dim) / tp_ : queries();
    return element_ * values + k_fp32 * real(model_.heads) / tp_;
  }

  /// Queries, keys and values of the kernel, those of all context ranks, and a row of the rotation for each
  /// token (complex, or sine and cosine in fp32).
  double attention() const {
    const double context = real(job_.layout.cp);
    double sum = element_ * (queries() + 2 * keys() * context) + attention_output();
    const double head = real(model_.head_dim);
    sum += k_fp32 * head * (model_.qk_norm || model_.attention_sinks ? 2 : 1);
    if (model_.qk_norm) {
      sum += element_ * (queries() + keys()) + k_fp32 * real(model_.heads + model_.kv_heads) / tp_;
    }
    if (model_.attention_sinks) {  // the result is scaled by a sigmoid of each head
      sum += element_ * queries() + 2 * k_fp32 * real(model_.heads) / tp_;
    }
    return sum;
  }

  /// Inputs of the norms of what is compressed, their results, which every tensor rank has whole, and what
  /// the kernel takes; values are a part of the product with keys.
  double latent_attention() const {
    const LatentAttention& latent = model_.latent;
    const double context = real(job_.layout.cp);
    double sum = element_ * (compressed() + real(latent.kv_rank)) + k_fp32;
    if (latent.query_rank > 0) {
      sum += 2 * element_ * real(latent.query_rank) + k_fp32;
    }
    const double per_head = real(model_.heads) / tp_;
    const double values =
        context > 1 ? context * real(latent.value_dim) : real(latent.nope_dim + latent.value_dim);
    sum += element_ * (latent_queries() * (1 + context) + per_head * values) + attention_output();
    return sum + k_fp32 * real(latent.rope_dim);
  }

  /// Both products, the activation and their product.
  static double gated(double width) { return 4 * width; }

  /// The input in fp32, scores of all experts, chosen ones and their order.
  double router() const {
    const double k = real(model_.top_k);
    const double scores = k_fp32 * (real(model_.hidden) + real(model_.experts) + k) + k_int64 * k;
    const double order = (2 * k_int64 + k_fp32) * k;
    return scores / routed_over() + order / (divides_experts() ? tp_ : 1);
  }

  /// Of each copy of a token: the input of the first products, what is between, and the result in fp32, which
  /// is multiplied by its score.
  double routed_experts() const {
    const double copies = real(model_.top_k) / (divides_experts() ? tp_ : 1);
    const double width = real(model_.expert_hidden()) / (divides_experts() ? 1 : tp_);
    const double hidden = real(model_.hidden);
    // gpt-oss clamps both halves: they, both clamped, a sigmoid, two products.
    const double inner = model_.linear_bias ? 7 * width : gated(width);
    const double indices = divides_experts() ? k_int64 : 0;  // of the order by expert
    return copies * (k_bf16 * (hidden + inner) + k_fp32 * hidden + indices);
  }

  const Job& job_;
  const ModelConfig& model_;
  bool has_experts_;
  double element_;
  double tp_;
  double shared_;  // tensor ranks that the sequence is split over
};

/// Inputs of the last norm and of the head.
double head_inputs(const Job& job) {
  const double hidden = real(size_of(pytorch::activation_dtype(job)) * job.model.hidden);
  return hidden / (job.layout.sequence_parallel ? real(job.layout.tp) : 1) + hidden;
}

/// While the loss of a logit is differentiated: the logit, the logarithm of its probability, the gradient of
/// that and of the logit, in fp32; a vocabulary that is split needs one more (_LossParallelCrossEntropy).
double bytes_of_logit(const Job& job) {
  const double logit = real(size_of(pytorch::activation_dtype(job)));
  return logit + k_fp32 * (job.layout.tp > 1 ? 4 : 3);
}

}  // namespace

LayerActivations block_activations(const Job& job, std::int64_t layer, Recompute recompute) {
  const Block block(job, layer);
  switch (recompute) {
    case Recompute::none:
      return block.saved_by_autograd();
    case Recompute::selective:
      return block.saved_by_selection();
    case Recompute::full:
      break;
  }
  return {.per_token = block.input()};
}

double exchanged_tokens(const Job& job) {
  if (job.layout.ep == 1) {
    return 0;
  }
  const double copies = real(job.model.top_k) / real(job.layout.tp);
  return 2 * copies * real(size_of(pytorch::activation_dtype(job)) * job.model.hidden);
}

LossActivations loss_activations(const Job& job, std::int64_t tokens) {
  const std::int64_t chunks = options(job).loss_chunks;
  const double element = real(size_of(pytorch::activation_dtype(job)));
  const double hidden = real(job.model.hidden);
  const double vocab = real(ceil_div(job.model.vocab, job.layout.tp));
  const double all = real(tokens);
  const double of_chunk = real(chunks == 0 ? tokens : ceil_div(tokens, chunks));
  double at_work =
      head_inputs(job) * all + bytes_of_logit(job) * vocab * of_chunk + element * hidden * of_chunk;
  if (chunks > 0) {
    const double copies = job.train.micro_batch > 1 ? element * hidden : 0;  // of parts of several sequences
    at_work += (k_fp32 * hidden + copies) * all;
    return {bytes_of(at_work), after_loss(job, tokens)};
  }
  return {bytes_of(at_work), bytes_of((head_inputs(job) + (element + k_fp32) * vocab) * all)};
}

Bytes after_loss(const Job& job, std::int64_t tokens) { return bytes_of(head_inputs(job) * real(tokens)); }

}  // namespace commlens::torchtitan
