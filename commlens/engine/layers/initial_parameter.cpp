#include <algorithm>
#include <cmath>
#include <string_view>

#include "commlens/engine/layers/module_forward.hpp"

namespace commlens::engine {
namespace {

constexpr double k_deviation = 0.02;
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

/// Rows [first, first + count) of a normal matrix of `columns` columns.
torch::Tensor normal_rows(std::uint64_t seed, std::string_view name, std::int64_t first, std::int64_t count,
                          std::int64_t columns) {
  torch::Tensor rows = torch::empty({count, columns}, torch::kFloat32);
  for (std::int64_t block = first / k_block_rows; block * k_block_rows < first + count; ++block) {
    const at::Generator generator = at::detail::createCPUGenerator(seed_of(seed, name, block));
    const torch::Tensor drawn = torch::randn({k_block_rows, columns}, generator);
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

}  // namespace

torch::Tensor initial_parameter(const HeldParameter& parameter, const ModelConfig& model, std::uint64_t seed,
                                std::int64_t tp, std::int64_t tp_rank) {
  const std::string_view name = parameter.name;
  if (parameter.shape.size() == 1) {
    const bool is_norm_weight = name.ends_with(".weight");
    return torch::full(parameter.shape, is_norm_weight ? 1.0 : 0.0, torch::kFloat32);
  }
  const bool ends_a_residual = contains(name, ".proj.") || contains(name, ".fc2.");
  const double deviation =
      ends_a_residual ? k_deviation / std::sqrt(2.0 * static_cast<double>(model.layers)) : k_deviation;
  const std::int64_t rows = parameter.shape[0];
  const bool has_own_rows = parameter.split == TensorSplit::column && tp > 1;
  torch::Tensor values =
      normal_rows(seed, name, has_own_rows ? tp_rank * rows : 0, rows, parameter.whole[1]).mul_(deviation);
  if (parameter.split == TensorSplit::row && tp > 1) {
    values = values.narrow(1, tp_rank * parameter.shape[1], parameter.shape[1]).contiguous();
  }
  return values;
}

}  // namespace commlens::engine
