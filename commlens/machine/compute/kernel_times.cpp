#include "commlens/machine/compute/kernel_times.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/base/units.hpp"

namespace commlens {
namespace {

// Tiles of the largest products (docs/time-model.md).
constexpr std::int64_t k_tile_rows = 128;
constexpr std::int64_t k_tile_columns = 256;
// A product may be divided along its inner dimension (split-K) into parts that are not shorter.
constexpr std::int64_t k_least_part = 4096;
constexpr double k_fused_backward = 2.5;  // five products instead of two
constexpr double k_fp4_over_fp8 = 1.5;

/// Waves that multiprocessors are busy for, over waves of tiles, for the best division of the inner
/// dimension: W waves of tiles are q W of them where it is divided into q.
double unfilled(double waves, std::int64_t inner, std::int64_t most_parts) {
  double least = std::ceil(waves) / waves;
  const std::int64_t most = std::min(most_parts, inner / k_least_part);
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    const double divided = waves * static_cast<double>(parts);
    least = std::min(least, std::ceil(divided) / divided);
  }
  return least;
}

}  // namespace

double waves_over_filled(const Gemm& gemm, double processors, std::int64_t most_parts) {
  const double waves =
      static_cast<double>(ceil_div(gemm.m, k_tile_rows) * ceil_div(gemm.n, k_tile_columns)) / processors;
  return unfilled(waves, gemm.k, most_parts);
}

double gemm_seconds(const ComputeRates& rates, const Gemm& gemm, MatrixPrecision precision) {
  if (gemm.m <= 0 || gemm.n <= 0 || gemm.k <= 0) {
    return 0;
  }
  const bool is_small = precision != MatrixPrecision::bf16;
  const double rate = is_small ? 2 * rates.peak * rates.fp8_efficiency : rates.peak * rates.gemm_efficiency;
  const double half_inner = is_small ? 2 * rates.half_inner : rates.half_inner;
  const double idle =
      1 + rates.wave_weight * (waves_over_filled(gemm, rates.processors, rates.most_parts) - 1);
  const double flops = 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
                       static_cast<double>(gemm.k) * static_cast<double>(gemm.count);
  const double faster = precision == MatrixPrecision::fp4 ? k_fp4_over_fp8 : 1;
  return flops / (rate * faster) * (1 + half_inner / static_cast<double>(gemm.k)) * idle +
         rates.product_overhead * static_cast<double>(gemm.count);
}

double attention_seconds(const ComputeRates& rates, const AttentionKernel& kernel) {
  const double scores = static_cast<double>(kernel.batch) * static_cast<double>(kernel.heads) *
                        static_cast<double>(kernel.queries) * static_cast<double>(kernel.keys);
  const double flops = 4 * scores * static_cast<double>(kernel.head_dim);
  if (!kernel.is_fused) {
    const double forward = flops / (rates.peak * rates.gemm_efficiency) +
                           scores * rates.score_bytes / 3 / rates.memory_bandwidth;
    return kernel.is_backward ? 2 * forward : forward;
  }
  const double computed = kernel.is_causal ? flops / 2 : flops;
  const double forward = computed / (rates.peak * rates.attention_efficiency);
  return kernel.is_backward ? k_fused_backward * forward : forward;
}

double memory_seconds(const ComputeRates& rates, double bytes) {
  return bytes * rates.memory_factor / rates.memory_bandwidth;
}

}  // namespace commlens
