#pragma once
#include <cstdint>
#include <string_view>

#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens::trainer {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "commlens";

/// Our own trainer (docs/training.md). The stage, clipping, recomputation and micro-batches are in
/// TrainConfig.
struct Options {
  Bytes bucket{25 * 1024 * 1024};     // gradients per call, stages 0-2
  bool all_reduce_gradients = false;  // stages 1, 2: gradients by all_reduce instead of reduce_scatter
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::trainer
