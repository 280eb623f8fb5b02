#include <algorithm>
#include <cmath>
#include <string_view>

#include "commlens/engine/layers/module_forward.hpp"

namespace commlens::engine {
namespace {

constexpr std::int64_t k_block_rows =
    256;  // drawn with one seed, so that row i does not depend on the number of rows

/// splitmix64's finaliser (Steele et al., OOPSLA 2014).
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

std::uint64_t seed_of(std::uint64_t seed, std::string_view name, std::int64_t block) {
  std::uint64_t hash = mixed(seed);
  for (const char letter : name) {
    hash = mixed(hash ^ static_cast<unsigned char>(letter));
  }
  return mixed(hash ^ static_cast<std::uint64_t>(block));
}

/// Distribution of a matrix's values, with mean 0 and deviation 1 before scaling.
struct Source {
  std::uint64_t seed = 0;
  std::string_view name;
  bool is_uniform = false;
};

torch::Tensor drawn_block(const Source& source, std::int64_t block, std::int64_t columns) {
  const at::Generator generator = at::detail::createCPUGenerator(seed_of(source.seed, source.name, block));
  if (!source.is_uniform) {
    return torch::randn({k_block_rows, columns}, generator);
  }
  return torch::rand({k_block_rows, columns}, generator).mul_(2).sub_(1).mul_(std::sqrt(3.0));
}

/// Rows [first, first + count) of a matrix of `columns` columns.
torch::Tensor drawn_rows(const Source& source, std::int64_t first, std::int64_t count, std::int64_t columns) {
  torch::Tensor rows = torch::empty({count, columns}, torch::kFloat32);
  for (std::int64_t block = first / k_block_rows; block * k_block_rows < first + count; ++block) {
    const torch::Tensor drawn = drawn_block(source, block, columns);
    const std::int64_t begin = std::max(first, block * k_block_rows);
    const std::int64_t end = std::min(first + count, (block + 1) * k_block_rows);
    rows.narrow(0, begin - first, end - begin)
        .copy_(drawn.narrow(0, begin - block * k_block_rows, end - begin));
  }
  return rows;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Standard deviation of a matrix of `rows` x `columns`.
double deviation_of(InitMethod method, const ModelConfig& model, std::int64_t rows, std::int64_t columns) {
  const auto layers = static_cast<double>(model.layers);
  const auto hidden = static_cast<double>(model.hidden);
  switch (method) {
    case InitMethod::normal:
      break;
    case InitMethod::scaled_normal:
      return model.initialisation.deviation / std::sqrt(2.0 * layers);
    case InitMethod::small:
      return std::sqrt(2.0 / (5.0 * hidden));
    case InitMethod::wang:
      return 2.0 / layers / std::sqrt(hidden);
    case InitMethod::xavier_normal:
    case InitMethod::xavier_uniform:
      return std::sqrt(2.0 / static_cast<double>(rows + columns));
  }
  return model.initialisation.deviation;
}

}  // namespace

torch::Tensor initial_parameter(const HeldParameter& parameter, const ModelConfig& model, std::uint64_t seed,
                                std::int64_t tp, std::int64_t tp_rank) {
  const std::string_view name = parameter.name;
  if (parameter.shape.size() == 1) {
    const bool is_norm_weight = name.ends_with(".weight");
    return torch::full(parameter.shape, is_norm_weight ? 1.0 : 0.0, torch::kFloat32);
  }
  const bool ends_a_residual = contains(name, ".proj.") || contains(name, ".fc2.");
  const InitMethod method =
      ends_a_residual ? model.initialisation.output_method : model.initialisation.method;
  const bool has_vocabulary = contains(name, "wte.") || contains(name, "head.");
  const std::int64_t whole_rows =  // padding depends on the layout
      has_vocabulary ? std::min(parameter.whole[0], model.raw_vocab) : parameter.whole[0];
  const double deviation = deviation_of(method, model, whole_rows, parameter.whole[1]);
  const std::int64_t rows = parameter.shape[0];
  const bool has_own_rows = parameter.split == TensorSplit::column && tp > 1;
  const Source source{seed, name, method == InitMethod::xavier_uniform};
  torch::Tensor values =
      drawn_rows(source, has_own_rows ? tp_rank * rows : 0, rows, parameter.whole[1]).mul_(deviation);
  if (parameter.split == TensorSplit::row && tp > 1) {
    values = values.narrow(1, tp_rank * parameter.shape[1], parameter.shape[1]).contiguous();
  }
  return values;
}

}  // namespace commlens::engine
