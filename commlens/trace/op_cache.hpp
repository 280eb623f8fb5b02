#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace commlens {

/// Rows of descriptions of calls, by everything that distinguishes two of them, packed into words. Finding a
/// row that is there allocates nothing.
class OpCache {
 public:
  using Key = std::array<std::uint64_t, 6>;
  static constexpr std::uint32_t k_absent = UINT32_MAX;

  OpCache();
  /// The row of `key`, k_absent when there is none.
  std::uint32_t find(const Key& key) const noexcept;
  /// Adds a row that is not there yet.
  void insert(const Key& key, std::uint32_t row);

 private:
  struct Entry {
    Key key = {};
    std::uint32_t row = k_absent;
  };
  std::size_t slot_of(const Key& key) const noexcept;
  void grow();

  std::vector<Entry> entries_;  // linear probing; a power of two, at most half full
  std::size_t count_ = 0;
  int shift_ = 0;  // of a hash to its slot
};

}  // namespace commlens
