#include "commlens/trace/op_cache.hpp"

#include <utility>

namespace commlens {
namespace {

constexpr int k_first_bits = 8;

/// Odd multipliers whose products do not wait for each other (digits of pi, e, the golden ratio, sqrt 2, sqrt
/// 3, sqrt 5).
std::uint64_t hash_of(const OpCache::Key& key) {
  return key[0] * 0x9e3779b97f4a7c15U + key[1] * 0x243f6a8885a308d3U + key[2] * 0xb7e151628aed2a6bU +
         key[3] * 0x6a09e667f3bcc909U + key[4] * 0xbb67ae8584caa73bU + key[5] * 0x3c6ef372fe94f82bU;
}

}  // namespace

OpCache::OpCache() : entries_(std::size_t{1} << k_first_bits), shift_(64 - k_first_bits) {}

std::size_t OpCache::slot_of(const Key& key) const noexcept {
  std::size_t slot = hash_of(key) >> shift_;
  while (entries_[slot].row != k_absent && entries_[slot].key != key) {
    slot = (slot + 1) & (entries_.size() - 1);
  }
  return slot;
}

std::uint32_t OpCache::find(const Key& key) const noexcept { return entries_[slot_of(key)].row; }

void OpCache::insert(const Key& key, std::uint32_t row) {
  if (2 * (count_ + 1) > entries_.size()) {
    grow();
  }
  entries_[slot_of(key)] = {key, row};
  ++count_;
}

void OpCache::grow() {
  const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(entries_.size() * 2));
  --shift_;
  for (const Entry& entry : old) {
    if (entry.row != k_absent) {
      entries_[slot_of(entry.key)] = entry;
    }
  }
}

}  // namespace commlens
