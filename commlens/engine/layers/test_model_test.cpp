#include "commlens/engine/layers/test_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/engine/processor.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens::engine::test {
namespace {

constexpr std::int64_t k_width = k_hidden / k_heads;

/// The set-up of train_rank before its first product, for tests that multiply without it.
class Processor : public testing::Environment {
 public:
  void SetUp() override { avoid_broken_amx(); }
};
[[maybe_unused]] const testing::Environment* const k_processor =
    testing::AddGlobalTestEnvironment(new Processor);

torch::Tensor plain_norm(const ModelConfig& model, const torch::Tensor& input, const torch::Tensor& weight,
                         const torch::Tensor& bias) {
  const torch::Tensor centred = input - input.mean(-1, true);
  const torch::Tensor variance = (centred * centred).mean(-1, true);
  return centred / (variance + model.norm_epsilon).sqrt() * weight + bias;
}

torch::Tensor plain_linear(const torch::Tensor& input, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  return input.matmul(weight.t()) + bias;
}

/// Element i of the first half of the rotating ones turns with element i of the second half, by
/// position * base^(-2 i / rotating). head [batch, sequence, width].
torch::Tensor plain_rotation(const torch::Tensor& head, double base) {
  const auto rotating = static_cast<std::int64_t>(k_width * k_rotary_fraction);
  std::vector<torch::Tensor> columns(k_width);
  for (std::int64_t i = 0; i < k_width; ++i) {
    columns[static_cast<std::size_t>(i)] = head.select(2, i);
  }
  const torch::Tensor position = torch::arange(head.size(1), head.options());
  for (std::int64_t i = 0; i < rotating / 2; ++i) {
    const auto j = static_cast<std::size_t>(i + rotating / 2);
    const torch::Tensor angle =
        position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotating));
    const torch::Tensor x = head.select(2, i);
    const torch::Tensor y = head.select(2, i + rotating / 2);
    columns[static_cast<std::size_t>(i)] = x * angle.cos() - y * angle.sin();
    columns[j] = y * angle.cos() + x * angle.sin();
  }
  return torch::stack(columns, 2);
}

torch::Tensor plain_attention(const ModelConfig& model, const torch::Tensor& qkv) {
  std::vector<torch::Tensor> outputs;
  const torch::Tensor future = torch::ones({qkv.size(1), qkv.size(1)}, torch::kBool).triu(1).unsqueeze(0);
  for (std::int64_t head = 0; head < k_heads; ++head) {
    const auto part = [&](std::int64_t which) {
      return qkv.narrow(2, (3 * head + which) * k_width, k_width);
    };
    const bool turns = model.positions == Positions::rotary;
    const torch::Tensor query = turns ? plain_rotation(part(0), model.rotary_base) : part(0);
    const torch::Tensor key = turns ? plain_rotation(part(1), model.rotary_base) : part(1);
    torch::Tensor scores = query.matmul(key.transpose(1, 2)) / std::sqrt(static_cast<double>(k_width));
    if (model.positions == Positions::alibi) {  // slopes 1/4, 1/16, 1/64, 1/256 of four heads
      const torch::Tensor places = torch::arange(qkv.size(1), qkv.options());
      scores = scores - (places.unsqueeze(1) - places.unsqueeze(0)) * std::pow(0.25, head + 1);
    }
    const torch::Tensor powers = scores.exp().masked_fill(future, 0.0);
    outputs.push_back((powers / powers.sum(-1, true)).matmul(part(2)));
  }
  return torch::cat(outputs, 2);
}

torch::Tensor plain_activation(const torch::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      break;
    case Activation::gelu_tanh:
      return x * 0.5 * (1.0 + torch::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::gelu_sigmoid:
      return x / (1.0 + (-1.702 * x).exp());
    case Activation::relu:
      return (x + x.abs()) / 2.0;
    case Activation::silu:
      return x / (1.0 + (-x).exp());
    case Activation::mish:
      return x * torch::tanh((1.0 + x.exp()).log());
    case Activation::softsign:
      return x / (1.0 + x.abs());
  }
  return x * 0.5 * (1.0 + torch::erf(x / std::sqrt(2.0)));
}

/// Element i of the first half of the width is sin(position 10000^(-2i / width)), of the second half the
/// cosine.
torch::Tensor plain_sinusoids(const torch::TensorOptions& options) {
  const torch::Tensor table = torch::zeros({k_sequence, k_hidden}, options);
  for (std::int64_t position = 0; position < k_sequence; ++position) {
    for (std::int64_t i = 0; i < k_hidden / 2; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(k_hidden));
      table[position][i] = std::sin(angle);
      table[position][i + k_hidden / 2] = std::cos(angle);
    }
  }
  return table;
}

using Tensors = std::vector<torch::Tensor>;

Tensors part_of(const Tensors& whole, const std::vector<int>& dimensions, std::int64_t ranks,
                std::int64_t rank) {
  Tensors parts;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const int dimension = dimensions[i];  // -1: not split
    const torch::Tensor part =
        dimension < 0 ? whole[i] : whole[i].chunk(ranks, dimension)[static_cast<std::size_t>(rank)];
    parts.push_back(part.detach().clone().requires_grad_());
  }
  return parts;
}

Tensors gradients_of(const Tensors& parameters) {
  Tensors gradients;
  for (const torch::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

Tensors with_table(const Parameters& parameters) {
  Tensors head = parameters.head;
  if (head.size() == 2) {
    head.push_back(parameters.embedding[0]);
  }
  return head;
}

}  // namespace

std::string text_of(const Variant& variant) {
  return fmt::format(
      "positions {}, parallel residual {}, tied {}, sequence parallel {}, selective {}, activation {}, "
      "epsilon {}, rotary base {}",
      static_cast<int>(variant.positions), variant.parallel_residual, variant.tied, variant.sequence_parallel,
      variant.selective, static_cast<int>(variant.activation), variant.norm_epsilon, variant.rotary_base);
}

ModelConfig model_of(const Variant& variant) {
  ModelConfig model;
  model.layers = 1;
  model.hidden = k_hidden;
  model.heads = k_heads;
  model.kv_heads = k_heads;
  model.head_dim = k_width;
  model.ffn_hidden = 4 * k_hidden;
  model.sequence = k_sequence;
  model.max_positions = k_max_positions;
  model.vocab = k_vocab;
  model.raw_vocab = k_vocab;
  model.positions = variant.positions;
  model.tied_embeddings = variant.tied;
  model.parallel_residual = variant.parallel_residual;
  model.activation = variant.activation;
  model.norm_epsilon = variant.norm_epsilon;
  model.rotary_base = variant.rotary_base;
  return model;
}

Parameters drawn_parameters(const Variant& variant, torch::ScalarType type) {
  const at::Generator generator = at::detail::createCPUGenerator(11);
  const auto drawn = [&](std::vector<std::int64_t> shape, double deviation, double mean = 0.0) {
    return torch::randn(shape, generator, torch::kFloat64)
        .mul_(deviation)
        .add_(mean)
        .to(type)
        .requires_grad_();
  };
  constexpr std::int64_t h = k_hidden;
  Parameters whole;
  whole.embedding = {drawn({k_vocab, h}, 0.5)};
  if (variant.positions == Positions::learned) {
    whole.embedding.push_back(drawn({k_max_positions, h}, 0.5));
  }
  whole.block = {drawn({h}, 0.3, 1.0),   drawn({h}, 0.3),     drawn({3 * h, h}, 0.2), drawn({3 * h}, 0.3),
                 drawn({h, h}, 0.2),     drawn({h}, 0.3),     drawn({h}, 0.3, 1.0),   drawn({h}, 0.3),
                 drawn({4 * h, h}, 0.2), drawn({4 * h}, 0.3), drawn({h, 4 * h}, 0.1), drawn({h}, 0.3)};
  whole.head = {drawn({h}, 0.3, 1.0), drawn({h}, 0.3)};
  if (!variant.tied) {
    whole.head.push_back(drawn({k_vocab, h}, 0.3));
  }
  return whole;
}

Parameters part_of(const Parameters& whole, std::int64_t ranks, std::int64_t rank) {
  return {part_of(whole.embedding, {0, -1}, ranks, rank),
          part_of(whole.block, {-1, -1, 0, 0, 1, -1, -1, -1, 0, 0, 1, -1}, ranks, rank),
          part_of(whole.head, {-1, -1, 0}, ranks, rank)};
}

Parameters gradients_of(const Parameters& parameters) {
  return {gradients_of(parameters.embedding), gradients_of(parameters.block), gradients_of(parameters.head)};
}

torch::Tensor drawn_tokens() {
  const at::Generator generator = at::detail::createCPUGenerator(12);
  return torch::randint(0, k_vocab, {k_batch, k_sequence}, generator, torch::kInt64);
}

torch::Tensor drawn_targets() {
  const at::Generator generator = at::detail::createCPUGenerator(13);
  return torch::randint(0, k_vocab, {k_batch, k_sequence}, generator, torch::kInt64);
}

torch::Tensor loss_of(const LayerContext& context, const Parameters& parameters) {
  const torch::Tensor embedded = embedding_forward(context, parameters.embedding, drawn_tokens());
  const torch::Tensor output = block_forward(context, parameters.block, embedded);
  return head_forward(context, with_table(parameters), output, drawn_targets());
}

torch::Tensor plain_block(const ModelConfig& model, const std::vector<torch::Tensor>& p,
                          const torch::Tensor& input) {
  const torch::Tensor attention = plain_linear(
      plain_attention(model, plain_linear(plain_norm(model, input, p[0], p[1]), p[2], p[3])), p[4], p[5]);
  const torch::Tensor read = model.parallel_residual ? input : input + attention;
  const torch::Tensor mlp = plain_linear(
      plain_activation(plain_linear(plain_norm(model, read, p[6], p[7]), p[8], p[9]), model.activation),
      p[10], p[11]);
  return input + attention + mlp;
}

torch::Tensor plain_loss_of(const ModelConfig& model, const Parameters& parameters) {
  torch::Tensor x = parameters.embedding[0].index_select(0, drawn_tokens().flatten());
  x = x.view({k_batch, k_sequence, k_hidden});
  if (model.positions == Positions::learned) {
    x = x + parameters.embedding[1].narrow(0, 0, k_sequence);
  } else if (model.positions == Positions::sinusoidal) {
    x = x + plain_sinusoids(x.options().requires_grad(false));
  }
  x = plain_block(model, parameters.block, x);
  const Tensors head = with_table(parameters);
  const torch::Tensor logits = plain_norm(model, x, head[0], head[1]).matmul(head[2].t()).flatten(0, 1);
  const torch::Tensor wanted = logits.gather(1, drawn_targets().view({-1, 1})).squeeze(1);
  return (logits.exp().sum(1).log() - wanted).mean();
}

std::string difference(const std::string& what, const torch::Tensor& found, const torch::Tensor& expected,
                       double tolerance) {
  if (!found.defined() || found.sizes() != expected.sizes()) {
    return what + ": missing, or of another shape\n";
  }
  const torch::Tensor f = found.detach().to(torch::kFloat64);
  const torch::Tensor e = expected.detach().to(torch::kFloat64);
  if (torch::allclose(f, e, tolerance, tolerance)) {
    return "";
  }
  return fmt::format("{}: largest difference {}, largest value {}\n", what,
                     (f - e).abs().max().item<double>(), e.abs().max().item<double>());
}

std::string differences(const Parameters& found, const Parameters& expected, double tolerance) {
  std::string text;
  const auto add = [&](const std::string& module, const Tensors& f, const Tensors& e) {
    for (std::size_t i = 0; i < e.size(); ++i) {
      text += difference(fmt::format("{}[{}]", module, i), f.at(i), e[i], tolerance);
    }
  };
  add("embedding", found.embedding, expected.embedding);
  add("block", found.block, expected.block);
  add("head", found.head, expected.head);
  return text;
}

void as_ranks(std::int64_t ranks, const std::function<void(Communicator& tp)>& body) {
  run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> world) {
    at::set_num_threads(1);
    body(*world);
  });
}

std::unique_ptr<Work> CountingCommunicator::start(const CommCall& call) {
  const std::int64_t elements = std::max(call.input.value, call.output.value);
  calls_.push_back(fmt::format("{} {} {} {}", name_of(call.kind), elements, name_of(call.dtype), call.tag));
  return counted_.start(call);
}

std::unique_ptr<Communicator> CountingCommunicator::split(std::int64_t color, std::int64_t key) {
  return counted_.split(color, key);
}

std::vector<std::string> CountingCommunicator::taken() { return std::exchange(calls_, {}); }

}  // namespace commlens::engine::test
