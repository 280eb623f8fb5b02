#pragma once
#include <cstdint>
#include <functional>

#include "commlens/search/space.hpp"
#include "commlens/simulate/iteration_time.hpp"

namespace commlens {

/// A layout with its time and memory. Layouts of one `shape` follow each other: they differ only in sequence
/// parallelism and in what is overlapped.
struct EvaluatedLayout {
  const TrainingRun& run;  // with this layout, and layers padded for its stages
  IterationTime time;
  double seconds = 0;       // of the iteration
  double memory_bytes = 0;  // of a device
  std::int64_t shape = 0;
};

/// Calls `visit` with every layout of the space of `base`, a run whose layout has its devices and its batch.
/// Time and memory are those of iteration_time() and memory_bytes_of(), put together from parts that many
/// layouts share: a layer by its degrees and micro-batch, messages of data parallelism by degrees and kind;
/// what is left for each layout adds. Returns how many there are.
std::int64_t for_each_layout(const TrainingRun& base, const Coefficients& with, const SearchSpace& space,
                             const std::function<void(const EvaluatedLayout&)>& visit);

}  // namespace commlens
