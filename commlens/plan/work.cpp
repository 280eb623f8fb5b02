#include "commlens/plan/work.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

/// FNV-1a over the words that tell works apart.
std::uint64_t hash_of(Phase phase, DType dtype, std::span<const KernelListId> lists) {
  constexpr std::uint64_t offset = 14695981039346656037ULL;
  constexpr std::uint64_t prime = 1099511628211ULL;
  std::uint64_t hash = (offset ^ static_cast<std::uint64_t>(phase)) * prime;
  hash = (hash ^ static_cast<std::uint64_t>(dtype)) * prime;
  for (const KernelListId list : lists) {
    hash = (hash ^ static_cast<std::uint64_t>(list)) * prime;
  }
  return hash;
}

}  // namespace

KernelListId WorkTable::intern(std::vector<Kernel> kernels) {
  const auto known = std::find(lists_.begin(), lists_.end(), kernels);
  const auto row = static_cast<std::uint32_t>(known - lists_.begin());
  if (known == lists_.end()) {
    lists_.push_back(std::move(kernels));
  }
  return KernelListId{row};
}

WorkId WorkTable::intern(Phase phase, DType dtype, std::span<const KernelListId> lists) {
  const std::uint64_t hash = hash_of(phase, dtype, lists);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Entry& entry = entries_[static_cast<std::size_t>(at->second)];
    if (entry.phase == phase && entry.dtype == dtype && std::ranges::equal(entry.lists, lists)) {
      return at->second;
    }
  }
  const WorkId id{static_cast<std::uint32_t>(works_.size())};
  PlanWork work{.phase = phase, .dtype = dtype, .kernels = {}, .flops = {}, .moved = {}};
  for (const KernelListId list : lists) {
    for (const Kernel& kernel : lists_[static_cast<std::size_t>(list)]) {
      work.kernels.push_back(kernel);
      work.flops.value += flops_of(kernel).value;
      work.moved.value = saturating_sum(work.moved.value, bytes_of(kernel, dtype).value);
    }
  }
  works_.push_back(std::move(work));
  entries_.push_back({phase, dtype, {lists.begin(), lists.end()}});
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace commlens
