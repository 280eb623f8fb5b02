#pragma once
#include <cstdint>
#include <string_view>

#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torch_ddp {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "torch-ddp";

/// Arguments of PyTorch's DistributedDataParallel.
struct Options {
  Bytes bucket_cap{25 * 1024 * 1024};
  bool static_graph = false;
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::torch_ddp
