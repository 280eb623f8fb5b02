#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/result.hpp"

namespace commlens::formats::kineto {

/// One matrix product of a traced training: the kernels of an aten::mm or aten::addmm, [m, k] x [k, n].
struct TracedProduct {
  DType dtype = DType::fp32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t duration_ns = 0;  // of all its kernels, one after the other
};

/// The products of a trace, in the order of the file, and how many had to be left out.
struct TracedProducts {
  std::vector<TracedProduct> products;
  std::int64_t without_shape = 0;   // profiled without record_shapes
  std::int64_t without_kernel = 0;  // on the CPU, or whose kernels do not name their op
  std::int64_t of_other_types = 0;  // of complex numbers, say
};

/// Reads the products of a trace of torch.profiler that was taken with record_shapes=True. Kernels belong to
/// the op of their "External id". Fails where the file cannot be read.
Result<TracedProducts> read_products(const std::filesystem::path& path);

}  // namespace commlens::formats::kineto
