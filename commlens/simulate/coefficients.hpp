#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace commlens {

/// What can be fitted of a family of training runs (docs/time-model.md#iterations).
enum class Coefficient : std::uint8_t {
  gemm_efficiency,
  half_inner,
  fp8_efficiency,
  attention_efficiency,
  memory_factor,
  layer_launch,
  launch_floor,
  micro_batch,
  step,
  score_bytes,
  network_share,
  link_share,
  hop,
  tensor_hidden,
  overlap,
  contention,
  exchange,
  owner,
  optimizer_bytes,
  host_bytes,
  logits,
};
constexpr std::size_t k_coefficients = 21;

/// Where a coefficient starts, how far data have to pull it, and what it can never leave.
struct CoefficientFacts {
  std::string_view key;
  double prior = 1;
  double width = 0.5;  // of the logarithm
  double least = 0;
  double most = 1;
  std::string_view unit;
  std::string_view meaning;
};
const CoefficientFacts& facts_of(Coefficient coefficient);
std::optional<Coefficient> coefficient_from(std::string_view key);

/// Values of some.
using CoefficientValues = std::vector<std::pair<Coefficient, double>>;

/// A value of each.
class Coefficients {
 public:
  /// The priors.
  Coefficients();
  double operator[](Coefficient coefficient) const { return values_[static_cast<std::size_t>(coefficient)]; }
  void set(const CoefficientValues& values) {
    for (const auto& [coefficient, value] : values) {
      (*this)[coefficient] = value;
    }
  }
  double& operator[](Coefficient coefficient) { return values_[static_cast<std::size_t>(coefficient)]; }

 private:
  std::array<double, k_coefficients> values_{};
};

}  // namespace commlens
