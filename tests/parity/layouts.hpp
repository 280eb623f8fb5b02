#pragma once
#include <cstdint>
#include <functional>
#include <ostream>
#include <vector>

#include "commlens/model/job.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {

constexpr double k_fp32_tolerance = 1e-5;
constexpr double k_bf16_tolerance = 2e-2;
constexpr double k_fp16_tolerance = 2e-3;
constexpr double k_quantized_tolerance = 5e-2;

/// One layout. The global batch is 8 sequences: micro_batch = 8 / (dp * micro_batches).
struct Layout {
  const char* name;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  int zero = 0;
  std::int64_t micro_batches = 1;
  std::function<void(Job&)> change = [](Job&) {};  // what only this layout has
  std::function<void(Job&)> both = [](Job&) {};    // what its one-rank run has too
  double tolerance = k_fp32_tolerance;
};

inline void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

Job job_of(const Layout& layout);

/// Every scheme at a time, products of schemes, and corners.
const std::vector<Layout>& layouts();

// What layouts change in a job.
void sequence_parallel(Job& job);
void gpipe(Job& job);
void interleaved(Job& job);
void full(Job& job);
void selective(Job& job);
void deepspeed_like(Job& job);
void partitioned(Job& job);
void tied(Job& job);
void gptj(Job& job);
void alibi(Job& job);
void learned(Job& job);
void clipped(Job& job);
void bf16(Job& job);
void fp16(Job& job);
void hpz2(Job& job);
void qwz(Job& job);
void hpz4(Job& job);
void one_byte_buckets(Job& job);
void one_bucket(Job& job);
void all_persistent(Job& job);
void none_persistent(Job& job);
void six_layers(Job& job);
void eight_layers(Job& job);
void one_layer(Job& job);
void padded_vocabulary(Job& job);
void ragged_vocabulary(Job& job);
void mostly_padding(Job& job);
void eight_heads(Job& job);
void more_positions(Job& job);
void qgz(Job& job);
std::function<void(Job&)> all(std::vector<void (*)(Job&)> changes);

}  // namespace commlens::engine
