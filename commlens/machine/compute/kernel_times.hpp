#pragma once
#include <cstdint>

#include "commlens/model/kernels.hpp"

namespace commlens {

/// Element type that matrix products are computed in.
enum class MatrixPrecision : std::uint8_t { bf16, fp8, fp4 };

/// What a device computes kernels with: its data sheet, and how much of it is reached.
struct ComputeRates {
  double peak = 0;                  // FLOP/s, dense, 16 bit
  double memory_bandwidth = 0;      // bytes/s
  double processors = 1;            // multiprocessors, that tiles of a product are spread over
  double gemm_efficiency = 1;       // e0: of the peak, by a product of endless inner dimension
  double fp8_efficiency = 1;        // e8: of twice the peak
  double half_inner = 0;            // k0: the inner dimension at which half of that is reached
  double product_overhead = 0;      // seconds of every product, beside its operations
  double wave_weight = 0.46;        // how much of the last, unfilled wave of tiles counts
  std::int64_t most_parts = 8;      // that a product is divided into along a long inner dimension (split-K)
  double attention_efficiency = 1;  // ea: of the peak, by fused attention
  double score_bytes = 0;           // of each score, three passes over memory, where attention is not fused
  double memory_factor = 1;         // ew: time of memory-bound work, of what the bandwidth allows
};

/// ceil(W)/W of a product, for the best division of its inner dimension into at most `most_parts`.
double waves_over_filled(const Gemm& gemm, double processors, std::int64_t most_parts);

/// Seconds of `gemm.count` products:
///   2 m n k / (P e0) (1 + k0/k) (1 + w (ceil(W)/W - 1)) + overhead,
///   W = ceil(m/128) ceil(n/256) / processors,
/// where a product of long inner dimension may be divided along it into parts that fill waves better.
/// fp8 has 2 P e8 and 2 k0, fp4 1.5 times the rate of fp8 (not measured).
/// Source: docs/time-model.md#kernels, measured on tables of A100 products (error 3.3 %).
double gemm_seconds(const ComputeRates& rates, const Gemm& gemm, MatrixPrecision precision);

/// Seconds of one attention kernel. Fused: half of the products, where causal, at their own efficiency;
/// backward 2.5 times as long. Else: all products as matrix products and
/// `score_bytes` / 3 for each score; backward twice.
double attention_seconds(const ComputeRates& rates, const AttentionKernel& kernel);

/// Bytes of memory traffic that casting an element of a product's operands to fp8 takes: a third of 4, half
/// of which the kernels move that make the operands.
constexpr double k_cast_bytes = 2.0 / 3;

/// Seconds of memory-bound work on so many bytes.
double memory_seconds(const ComputeRates& rates, double bytes);

}  // namespace commlens
