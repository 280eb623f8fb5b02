#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/model/kernels.hpp"

namespace commlens {

/// Row of a plan's table of works.
enum class WorkId : std::uint32_t {};
/// Row of the table of kernel lists that works are made of.
enum class KernelListId : std::uint32_t {};
constexpr KernelListId k_no_kernels{0};

/// A piece of computing: kernels that a rank launches one after the other, with no message between them that
/// anything waits for.
struct PlanWork {
  Phase phase = Phase::other;
  DType dtype = DType::fp32;  // of its matrix products
  std::vector<Kernel> kernels;
  Flops flops;  // of all kernels
  Bytes moved;  // by all kernels
};

/// The computing of a plan, each different piece once.
class WorkTable {
 public:
  KernelListId intern(std::vector<Kernel> kernels);
  /// The lists one after the other.
  WorkId intern(Phase phase, DType dtype, std::span<const KernelListId> lists);

  const PlanWork& operator[](WorkId id) const { return works_[static_cast<std::size_t>(id)]; }
  std::size_t count() const { return works_.size(); }

 private:
  struct Entry {
    Phase phase;
    DType dtype;
    std::vector<KernelListId> lists;
  };
  std::vector<std::vector<Kernel>> lists_ = {{}};
  std::vector<PlanWork> works_;
  std::vector<Entry> entries_;  // of works_, to tell them apart
  std::unordered_multimap<std::uint64_t, WorkId> by_hash_;
};

}  // namespace commlens
