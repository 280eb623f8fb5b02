#include "commlens/simulate/layer_times.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "commlens/simulate/ring.hpp"

namespace commlens {
namespace {

constexpr double k_hidden_exchange = 0.3;  // what is left of an exchange that other computing hides
constexpr double k_expert_launches =
    2;                                  // of a layer with experts: routing, sorting and its wait for the host
constexpr double k_graph_launch = 0.4;  // of the launches, where kernels are launched together
constexpr double k_loss_bytes = 14;     // of each logit, forward and backward
// Multi-head latent attention as published (DeepSeek-V2, arXiv 2405.04434; config of V3): ranks of the
// compressed queries and keys, the head's parts without and with positions.
constexpr std::int64_t k_latent_query = 1536;
constexpr std::int64_t k_latent_keys = 512;
constexpr std::int64_t k_latent_head = 128;
constexpr std::int64_t k_position_head = 64;

double number(std::int64_t value) { return static_cast<double>(value); }

std::int64_t tokens_of(const TrainingRun& run) {
  return run.layout.micro_batch * run.model.sequence / run.layout.context;
}

/// Products of attention's projections, of one device.
std::vector<Gemm> projections(const TrainingRun& run, std::int64_t tokens) {
  const RunModel& model = run.model;
  const std::int64_t tensor = run.layout.tensor;
  if (model.has_latent_attention) {
    const std::int64_t heads = model.heads;
    return {{tokens, k_latent_query + k_latent_keys + k_position_head, model.hidden},
            {tokens, (k_latent_head + k_position_head) * heads / tensor, k_latent_query},
            {tokens, 2 * k_latent_head * heads / tensor, k_latent_keys},
            {tokens, model.hidden, k_latent_head * heads / tensor}};
  }
  const std::int64_t width = model.heads * model.head_dim / tensor;
  const std::int64_t keys = std::max<std::int64_t>(model.kv_heads * model.head_dim / tensor, model.head_dim);
  return {{tokens, width + 2 * keys, model.hidden}, {tokens, model.hidden, width}};
}

/// Products of a feed-forward network of this width on so many rows.
std::vector<Gemm> feed_forward(const RunModel& model, std::int64_t rows, std::int64_t width,
                               std::int64_t count) {
  return {{rows, (model.is_gated ? 2 : 1) * width, model.hidden, count}, {rows, model.hidden, width, count}};
}

std::vector<Gemm> expert_products(const TrainingRun& run, std::int64_t tokens) {
  const RunModel& model = run.model;
  const RunLayout& layout = run.layout;
  const std::int64_t held = std::max<std::int64_t>(model.experts / layout.expert, 1);
  const double rows = number(tokens) * number(model.top_k) * number(layout.expert_tensor) /
                      (number(layout.tensor) * number(held));
  std::vector<Gemm> products = feed_forward(model, std::max<std::int64_t>(std::llround(rows), 1),
                                            model.expert_ffn / layout.expert_tensor, held);
  if (model.shared_experts > 0) {
    const std::vector<Gemm> shared =
        feed_forward(model, tokens, model.expert_ffn * model.shared_experts / layout.tensor, 1);
    products.insert(products.end(), shared.begin(), shared.end());
  }
  return products;
}

std::vector<Gemm> layer_products(const TrainingRun& run, bool has_experts) {
  const std::int64_t tokens = tokens_of(run);
  std::vector<Gemm> products = projections(run, tokens);
  const std::vector<Gemm> rest = has_experts
                                     ? expert_products(run, tokens)
                                     : feed_forward(run.model, tokens, run.model.ffn / run.layout.tensor, 1);
  products.insert(products.end(), rest.begin(), rest.end());
  return products;
}

/// The two products that a product's gradients take.
double gradient_seconds(const ComputeRates& rates, const Gemm& gemm, MatrixPrecision precision) {
  return gemm_seconds(rates, {gemm.m, gemm.k, gemm.n, gemm.count}, precision) +
         gemm_seconds(rates, {gemm.n, gemm.k, gemm.m, gemm.count}, precision);
}

AttentionKernel attention_of(const TrainingRun& run, bool is_backward) {
  const RunModel& model = run.model;
  return {run.layout.micro_batch,
          std::max<std::int64_t>(model.heads / run.layout.tensor, 1),
          model.kv_heads,
          model.sequence / run.layout.context,
          model.sequence,
          attention_dimension(model),
          true,
          run.behaviour.has_fused_attention,
          is_backward};
}

double memory_bytes(const TrainingRun& run, bool has_experts, const std::vector<Gemm>& products) {
  const RunModel& model = run.model;
  const double tokens = number(tokens_of(run));
  const double tensor = number(run.layout.tensor);
  const double width =
      has_experts ? number(model.expert_ffn) * number(model.top_k + model.shared_experts) : number(model.ffn);
  double bytes = 12 * tokens * number(model.hidden) / (run.layout.has_sequence_parallel ? tensor : 1) +
                 tokens * width * (model.is_gated ? 6 : 4) / tensor;
  if (has_experts) {
    bytes += 8 * tokens * number(model.hidden) * number(model.top_k) / tensor;
  }
  if (run.behaviour.precision != MatrixPrecision::bf16) {
    for (const Gemm& gemm : products) {
      bytes += k_cast_bytes * number(gemm.m) * number(gemm.k + gemm.n) * number(gemm.count);
    }
  }
  return bytes;
}

double tensor_seconds(const TrainingRun& run, const Coefficients& with) {
  const RingGroup group = ring_group(run.hardware, run.layout.tensor, 1);
  const double bytes = 2 * number(tokens_of(run)) * number(run.model.hidden);
  const double shown = run.behaviour.overlaps_tensor ? 1 - with[Coefficient::tensor_hidden] : 1;
  return 4 * shown * ring_seconds(run.hardware, with, group, bytes);
}

/// Keys and values of other ranks, one message for each of them; attention hides what it can.
double context_seconds(const TrainingRun& run, const Coefficients& with, double attention, double passes) {
  const RunLayout& layout = run.layout;
  if (layout.context <= 1) {
    return 0;
  }
  const double width = run.model.has_latent_attention
                           ? number(k_latent_head + k_position_head) * number(run.model.heads)
                           : number(run.model.kv_heads * run.model.head_dim);
  const double bytes = 4 * number(layout.micro_batch) * number(run.model.sequence / layout.context) * width /
                       number(layout.tensor);
  const bool in_domain = layout.tensor * layout.context <= run.hardware.domain;
  const double messages =
      passes * number(layout.context - 1) * message_seconds(run.hardware, with, in_domain, bytes);
  return std::max(messages - attention, 0.0);
}

double expert_messages(const TrainingRun& run, const Coefficients& with) {
  const RunLayout& layout = run.layout;
  const double tokens = number(tokens_of(run)) * number(run.model.top_k) / number(layout.tensor);
  const double bytes = tokens * number(run.model.hidden) * 2;
  const RingGroup group = ring_group(run.hardware, layout.expert, layout.expert_tensor);
  const double hidden = run.behaviour.overlaps_exchange ? k_hidden_exchange : 1;
  const double tensor =
      2 * ring_seconds(run.hardware, with, ring_group(run.hardware, layout.expert_tensor, 1),
                       bytes * number(layout.expert_tensor));
  return 2 * hidden * exchange_seconds(run.hardware, with, group, bytes) + tensor;
}

double launch_seconds(const TrainingRun& run, const Coefficients& with) {
  return with[Coefficient::layer_launch] * 1e-6 * (run.behaviour.has_graphs ? k_graph_launch : 1);
}

PassTime forward_pass(const TrainingRun& run, const Coefficients& with, bool has_experts) {
  const ComputeRates rates = rates_of(run.hardware, with);
  const std::vector<Gemm> products = layer_products(run, has_experts);
  PassTime pass;
  for (const Gemm& gemm : products) {
    pass.gemm += gemm_seconds(rates, gemm, run.behaviour.precision);
  }
  if (has_experts) {
    pass.exchange = expert_messages(run, with);
  }
  pass.attention = attention_seconds(rates, attention_of(run, false));
  pass.memory = memory_seconds(rates, memory_bytes(run, has_experts, products));
  pass.launch = launch_seconds(run, with) / 3 * (has_experts ? k_expert_launches : 1);
  pass.tensor = has_experts ? tensor_seconds(run, with) / 2 : tensor_seconds(run, with);
  pass.context = context_seconds(run, with, pass.attention, 1);
  return pass;
}

PassTime backward_pass(const TrainingRun& run, const Coefficients& with, const PassTime& forward,
                       bool has_experts) {
  const ComputeRates rates = rates_of(run.hardware, with);
  PassTime pass;
  for (const Gemm& gemm : layer_products(run, has_experts)) {
    pass.gemm += gradient_seconds(rates, gemm, run.behaviour.precision);
  }
  pass.attention = attention_seconds(rates, attention_of(run, true));
  pass.memory = 2 * forward.memory;
  pass.launch = 2 * forward.launch;
  pass.tensor = forward.tensor;
  pass.exchange = forward.exchange;
  pass.context = context_seconds(run, with, pass.attention, 2);
  if (run.layout.micro_batches() > 1 && !is_sharded(run.layout.data_kind)) {
    const LayerParameters parameters = layer_parameters(run, has_experts);
    pass.accumulate =
        run.behaviour.accumulation_bytes * (parameters.shared + parameters.experts) / rates.memory_bandwidth;
  }
  return pass;
}

PassTime repeated_pass(const TrainingRun& run, const Coefficients& with, const PassTime& forward,
                       bool has_experts) {
  PassTime pass;
  if (run.behaviour.recompute == Recompute::selective) {
    pass.attention = forward.attention;
  } else if (run.behaviour.recompute == Recompute::full) {
    pass = forward;
    // The last product's result is no input of any gradient (torch.utils.checkpoint, early_stop). That of
    // experts is: it is weighted.
    if (run.behaviour.stops_repeating_early && !has_experts) {
      pass.gemm -= gemm_seconds(rates_of(run.hardware, with), layer_products(run, false).back(),
                                run.behaviour.precision);
    }
  }
  return pass;
}

}  // namespace

ComputeRates rates_of(const RunHardware& hardware, const Coefficients& with) {
  return {.peak = hardware.peak,
          .memory_bandwidth = hardware.memory_bandwidth,
          .processors = hardware.processors,
          .gemm_efficiency = with[Coefficient::gemm_efficiency],
          .fp8_efficiency = with[Coefficient::fp8_efficiency],
          .half_inner = with[Coefficient::half_inner],
          .most_parts = hardware.divides_products ? ComputeRates().most_parts : 1,
          .attention_efficiency = with[Coefficient::attention_efficiency],
          .score_bytes = with[Coefficient::score_bytes],
          .memory_factor = with[Coefficient::memory_factor]};
}

std::int64_t attention_dimension(const RunModel& model) {
  // Heads of latent attention are longer for queries and keys than for values.
  return model.has_latent_attention ? k_latent_head + k_position_head / 2 : model.head_dim;
}

double projection_weights(const TrainingRun& run) {
  TrainingRun whole = run;
  whole.layout.tensor = 1;
  double weights = 0;
  for (const Gemm& gemm : projections(whole, 1)) {
    weights += number(gemm.n) * number(gemm.k);
  }
  return weights;
}

LayerTime layer_time(const TrainingRun& run, const Coefficients& with, bool has_experts) {
  LayerTime layer;
  layer.forward = forward_pass(run, with, has_experts);
  layer.repeated = repeated_pass(run, with, layer.forward, has_experts);
  layer.backward = backward_pass(run, with, layer.forward, has_experts);
  return layer;
}

double logits_seconds(const TrainingRun& run, const Coefficients& with) {
  const ComputeRates rates = rates_of(run.hardware, with);
  const std::int64_t tokens = tokens_of(run);
  const std::int64_t vocab = run.model.vocab / run.layout.tensor;
  const Gemm head{tokens, vocab, run.model.hidden};
  return with[Coefficient::logits] * (gemm_seconds(rates, head, MatrixPrecision::bf16) +
                                      gradient_seconds(rates, head, MatrixPrecision::bf16) +
                                      memory_seconds(rates, k_loss_bytes * number(tokens) * number(vocab)));
}

LayerParameters layer_parameters(const TrainingRun& run, bool has_experts) {
  LayerParameters parameters;
  for (const Gemm& gemm : projections(run, 1)) {
    parameters.shared += number(gemm.n) * number(gemm.k);
  }
  const std::vector<Gemm> products = has_experts
                                         ? expert_products(run, 1)
                                         : feed_forward(run.model, 1, run.model.ffn / run.layout.tensor, 1);
  for (std::size_t index = 0; index < products.size(); ++index) {
    const Gemm& gemm = products[index];
    (has_experts && index < 2 ? parameters.experts : parameters.shared) +=
        number(gemm.n) * number(gemm.k) * number(gemm.count);
  }
  return parameters;
}

}  // namespace commlens
