#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "commlens/base/units.hpp"

namespace commlens::engine {

/// Bytes of the tensors that one rank holds in host memory, and the most it ever held. Counted where LibTorch
/// allocates; memory allocated by libraries below it (packed matrices, threads' stacks) is not included. A
/// tensor counts for the rank whose thread made it, whichever thread frees it.
class TensorMemory {
 public:
  void add(std::int64_t bytes) noexcept;
  Bytes peak() const { return Bytes{peak_.load(std::memory_order_relaxed)}; }

 private:
  std::atomic<std::int64_t> now_{0};
  std::atomic<std::int64_t> peak_{0};
};

/// During its lifetime, tensors made by the calling thread count for one rank.
class TensorMemoryScope {
 public:
  TensorMemoryScope();
  ~TensorMemoryScope();
  TensorMemoryScope(const TensorMemoryScope&) = delete;
  TensorMemoryScope& operator=(const TensorMemoryScope&) = delete;

  const TensorMemory& memory() const { return *memory_; }

 private:
  std::shared_ptr<TensorMemory> memory_;
  std::shared_ptr<TensorMemory> before_;
};

}  // namespace commlens::engine
