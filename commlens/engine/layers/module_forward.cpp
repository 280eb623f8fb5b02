#include "commlens/engine/layers/module_forward.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "commlens/base/check.hpp"
#include "commlens/engine/layers/attention.hpp"
#include "commlens/engine/layers/cross_entropy.hpp"
#include "commlens/engine/layers/tensor_parallel.hpp"

namespace commlens::engine {
namespace {

/// LibTorch 1.x multiplies no fp16 on CPUs (nor normalises, nor takes softmax or gelu of it): there it is
/// stored and sent, and each operation computes in fp32 and rounds its result, with later versions too.
torch::Tensor widened(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kHalf ? tensor.to(torch::kFloat32) : tensor;
}

torch::Tensor projected(const torch::Tensor& input, const torch::Tensor& weight,
                        const torch::Tensor& bias = {}) {
  const torch::Tensor wide_bias = bias.defined() ? widened(bias) : bias;
  return torch::linear(widened(input), widened(weight), wide_bias).to(input.scalar_type());
}

/// A block's parameters by name.
struct BlockParameters {
  torch::Tensor ln1_weight, ln1_bias;    // [h]
  torch::Tensor qkv_weight, qkv_bias;    // [3 h / t, h], [3 h / t]
  torch::Tensor proj_weight, proj_bias;  // [h, h / t], [h]
  torch::Tensor ln2_weight, ln2_bias;
  torch::Tensor fc1_weight, fc1_bias;  // [4 h / t, h], [4 h / t]
  torch::Tensor fc2_weight, fc2_bias;  // [h, 4 h / t], [h]
};

BlockParameters named(const LayerContext& context, const std::vector<torch::Tensor>& p) {
  COMMLENS_CHECK(p.size() == 12, "a block has twelve parameters");
  BlockParameters block{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]};
  if (context.sequence_parallel) {
    const std::vector<torch::Tensor> shared = shared_parameters(
        {block.ln1_weight, block.ln1_bias, block.proj_bias, block.ln2_weight, block.ln2_bias, block.fc2_bias},
        context.tp, "block.shared.grad");
    block.ln1_weight = shared[0];
    block.ln1_bias = shared[1];
    block.proj_bias = shared[2];
    block.ln2_weight = shared[3];
    block.ln2_bias = shared[4];
    block.fc2_bias = shared[5];
  }
  return block;
}

torch::Tensor normalised(const LayerContext& context, const torch::Tensor& input, const torch::Tensor& weight,
                         const torch::Tensor& bias) {
  return torch::layer_norm(widened(input), {input.size(-1)}, widened(weight), widened(bias),
                           context.model.norm_epsilon)
      .to(input.scalar_type());
}

/// The input of a column-split layer: the whole sequence, its gradient summed over tensor ranks.
torch::Tensor into_columns(const LayerContext& context, const torch::Tensor& input, const char* tag,
                           const char* backward_tag) {
  return context.sequence_parallel ? gather_sequence(input, context.tp, tag, backward_tag)
                                   : copy_to_tp(input, context.tp, backward_tag);
}

/// The output of a row-split layer: the sum over tensor ranks, of this rank's part of the sequence.
torch::Tensor out_of_rows(const LayerContext& context, const torch::Tensor& partial, const char* tag,
                          const char* backward_tag) {
  return context.sequence_parallel ? scatter_sequence(partial, context.tp, tag, backward_tag)
                                   : reduce_from_tp(partial, context.tp, tag);
}

/// The bias added to the scores of qkv [batch, sequence, ...]: -inf where a token would see a later one and,
/// with ALiBi, minus slope times distance. [1, sequence, sequence], with ALiBi [heads, sequence, sequence].
torch::Tensor attention_bias(const LayerContext& context, const torch::Tensor& qkv) {
  const std::int64_t length = qkv.size(1);
  const torch::Tensor mask = context.causal_mask.narrow(0, 0, length).narrow(1, 0, length);
  const double never = -std::numeric_limits<double>::infinity();
  if (context.model.positions != Positions::alibi) {
    return torch::zeros({length, length}, qkv.options()).masked_fill_(mask, never).unsqueeze(0);
  }
  const std::int64_t heads = qkv.size(2) / (3 * context.model.head_dim);
  const std::int64_t first = context.tp == nullptr ? 0 : context.tp->rank().value * heads;
  const std::vector<double> slopes = alibi_slopes(context.model.heads);
  const torch::Tensor own =
      torch::tensor(slopes, torch::kFloat64).narrow(0, first, heads).view({heads, 1, 1});
  const torch::Tensor places = torch::arange(length, torch::kFloat64);
  const torch::Tensor distance = places.view({length, 1}) - places.view({1, length});
  return (distance * own.neg()).to(qkv.options()).masked_fill_(mask, never);
}

/// input [batch, sequence, h] -> the heads' outputs [batch, sequence, h / t].
torch::Tensor attention(const LayerContext& context, const BlockParameters& block,
                        const torch::Tensor& input) {
  const std::int64_t length = input.size(1);
  const std::int64_t width = context.model.head_dim;
  const torch::Tensor qkv = widened(projected(input, block.qkv_weight, block.qkv_bias));
  torch::Tensor cos;
  torch::Tensor sin;
  if (context.rotary_cos.defined()) {
    const std::int64_t half = context.rotary_cos.size(1) / 2;
    cos = context.rotary_cos.narrow(0, 0, length).narrow(1, 0, half).to(qkv.scalar_type());
    sin = context.rotary_sin.narrow(0, 0, length).narrow(1, 0, half).to(qkv.scalar_type());
  }
  const Heads heads = split_heads(qkv, width, cos, sin);
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  torch::Tensor result;  // [batch, heads, sequence, head_dim]
  if (context.fused_attention) {
    const bool has_bias = context.model.positions == Positions::alibi;
    result = fused_attention(heads, has_bias ? attention_bias(context, qkv) : torch::Tensor(), scale);
  } else {
    result = core_attention(heads, attention_bias(context, qkv), scale, context.selective_recompute);
  }
  return result.transpose(1, 2).flatten(2).to(input.scalar_type());
}

torch::Tensor mlp_input(const LayerContext& context, const BlockParameters& block,
                        const torch::Tensor& input) {
  return into_columns(context, normalised(context, input, block.ln2_weight, block.ln2_bias), "block.fc1",
                      "block.fc1.grad");
}

torch::Tensor activated_wide(const torch::Tensor& input, Activation activation) {
  constexpr double steepness = 1.702;
  switch (activation) {
    case Activation::gelu:
      break;
    case Activation::gelu_tanh:
      return torch::gelu(input, "tanh");
    case Activation::gelu_sigmoid:
      return input * torch::sigmoid(input * steepness);
    case Activation::relu:
      return torch::relu(input);
    case Activation::silu:
      return torch::silu(input);
    case Activation::mish:
      return torch::mish(input);
    case Activation::softsign:
      return input / (input.abs() + 1.0);
  }
  return torch::gelu(input);
}

torch::Tensor activated(const torch::Tensor& input, Activation activation) {
  return activated_wide(widened(input), activation).to(input.scalar_type());
}

torch::Tensor mlp(const LayerContext& context, const BlockParameters& block, const torch::Tensor& input) {
  return activated(projected(input, block.fc1_weight, block.fc1_bias), context.model.activation);
}

/// Sines of the first half of the width, cosines of the second. [sequence, h]
/// Source: gpt-neox megatron/model/positional_embeddings.py SinusoidalPositionalEmbedding.
torch::Tensor sinusoidal_positions(const ModelConfig& model) {
  constexpr double base = 10000.0;
  const torch::Tensor rates = torch::pow(
      base, -torch::arange(0, model.hidden, 2, torch::kFloat64) / static_cast<double>(model.hidden));
  const torch::Tensor angles =
      torch::arange(model.sequence, torch::kFloat64).unsqueeze(1) * rates.unsqueeze(0);
  return torch::cat({angles.sin(), angles.cos()}, 1).narrow(1, 0, model.hidden).to(torch::kFloat32);
}

}  // namespace

LayerContext make_layer_context(const ModelConfig& model, double rotary_fraction, torch::Device device) {
  LayerContext context;
  context.model = model;
  context.causal_mask =
      torch::ones({model.sequence, model.sequence}, torch::TensorOptions().dtype(torch::kBool).device(device))
          .triu(1);
  if (model.positions == Positions::rotary) {
    const auto width =
        static_cast<std::int64_t>(static_cast<double>(model.head_dim) * rotary_fraction) / 2 * 2;
    const torch::Tensor rates = torch::pow(
        model.rotary_base, -torch::arange(0, width, 2, torch::kFloat64) / static_cast<double>(width));
    const torch::Tensor angles =
        torch::arange(model.sequence, torch::kFloat64).unsqueeze(1) * rates.unsqueeze(0);
    const torch::Tensor both = torch::cat({angles, angles}, 1);
    context.rotary_cos = both.cos().to(device, torch::kFloat32);
    context.rotary_sin = both.sin().to(device, torch::kFloat32);
  }
  if (model.positions == Positions::sinusoidal) {
    context.sinusoidal = sinusoidal_positions(model).to(device);
  }
  return context;
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto of_power_of_two = [](std::int64_t count, std::int64_t first, std::int64_t step,
                                  std::int64_t how_many) {
    std::vector<double> slopes;
    for (std::int64_t i = 0; i < how_many; ++i) {
      slopes.push_back(std::exp2(-8.0 * static_cast<double>(first + i * step) / static_cast<double>(count)));
    }
    return slopes;
  };
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> slopes = of_power_of_two(power, 1, 1, power);
  const std::vector<double> others = of_power_of_two(2 * power, 1, 2, heads - power);
  slopes.insert(slopes.end(), others.begin(), others.end());
  return slopes;
}

torch::Tensor embedding_forward(const LayerContext& context, const std::vector<torch::Tensor>& parameters,
                                const torch::Tensor& tokens) {
  const torch::Tensor& table = parameters[0];  // [V / t, h]
  const bool is_split = context.tp != nullptr && context.tp->size() > 1;
  torch::Tensor activations;
  if (is_split) {
    const torch::Tensor own = tokens - context.tp->rank().value * table.size(0);
    const torch::Tensor is_elsewhere = own.lt(0).logical_or(own.ge(table.size(0)));
    activations = torch::embedding(widened(table), own.masked_fill(is_elsewhere, 0))
                      .masked_fill_(is_elsewhere.unsqueeze(2), 0.0)
                      .to(table.scalar_type());
    activations = out_of_rows(context, activations, "embedding", "embedding.grad");
  } else {
    activations = torch::embedding(widened(table), tokens).to(table.scalar_type());
  }
  const std::int64_t length = activations.size(1);
  const std::int64_t first = context.sequence_parallel && is_split ? context.tp->rank().value * length : 0;
  if (context.model.positions == Positions::sinusoidal) {
    return activations + context.sinusoidal.narrow(0, first, length).to(activations.scalar_type());
  }
  if (context.model.positions != Positions::learned) {
    return activations;
  }
  const torch::Tensor positions = context.sequence_parallel ? shared_parameters({parameters[1]}, context.tp,
                                                                                "embedding.positions.grad")[0]
                                                            : parameters[1];
  return activations + positions.narrow(0, first, length);
}

torch::Tensor block_forward(const LayerContext& context, const std::vector<torch::Tensor>& parameters,
                            const torch::Tensor& input) {
  const BlockParameters block = named(context, parameters);
  const torch::Tensor columns = into_columns(
      context, normalised(context, input, block.ln1_weight, block.ln1_bias), "block.qkv", "block.qkv.grad");
  const torch::Tensor heads = attention(context, block, columns);
  const bool is_split = context.tp != nullptr && context.tp->size() > 1;
  if (!is_split) {
    const torch::Tensor middle = input + projected(heads, block.proj_weight, block.proj_bias);
    const torch::Tensor& mlp_reads = context.model.parallel_residual ? input : middle;
    return middle + projected(mlp(context, block, mlp_input(context, block, mlp_reads)), block.fc2_weight,
                              block.fc2_bias);
  }
  if (context.model.parallel_residual) {
    const torch::Tensor partial =
        projected(heads, block.proj_weight) +
        projected(mlp(context, block, mlp_input(context, block, input)), block.fc2_weight);
    const torch::Tensor sum = out_of_rows(context, partial, "block.residual", "block.residual.grad");
    return input + sum + (block.proj_bias + block.fc2_bias);
  }
  const torch::Tensor middle =
      input + (out_of_rows(context, projected(heads, block.proj_weight), "block.proj", "block.proj.grad") +
               block.proj_bias);
  const torch::Tensor wide = mlp(context, block, mlp_input(context, block, middle));
  return middle + (out_of_rows(context, projected(wide, block.fc2_weight), "block.fc2", "block.fc2.grad") +
                   block.fc2_bias);
}

torch::Tensor head_forward(const LayerContext& context, const std::vector<torch::Tensor>& parameters,
                           const torch::Tensor& input, const torch::Tensor& targets) {
  std::vector<torch::Tensor> norm{parameters[0], parameters[1]};
  if (context.sequence_parallel) {
    norm = shared_parameters(norm, context.tp, "head.norm.grad");
  }
  const torch::Tensor columns =
      into_columns(context, normalised(context, input, norm[0], norm[1]), "head", "head.grad");
  // [batch * sequence, V / t]; widened, because gradients of a mean over many tokens are less than fp16's
  // least
  const torch::Tensor logits = widened(projected(columns, parameters[2])).flatten(0, 1);
  return cross_entropy(logits, targets.flatten(), context.tp, context.model.raw_vocab);
}

}  // namespace commlens::engine
