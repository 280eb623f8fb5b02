#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "commlens/model/job.hpp"

namespace commlens::neox {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "neox";

/// GPT-NeoX's own settings.
struct Options {
  bool fp32_allreduce = false;
  bool fp16_lm_cross_entropy = false;
  std::int64_t checkpoint_num_layers = 1;
  std::string partition_method = "type:transformer|mlp";
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::neox
