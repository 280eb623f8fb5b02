#include "commlens/trace/stream_layout.hpp"

#include <algorithm>

namespace commlens {

bool is_lost(const StreamHeader& header) {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::uint64_t records_before_zeros(std::span<const std::byte> records, std::size_t size) {
  std::size_t used = records.size();
  while (used > 0 && records[used - 1] == std::byte{0}) {
    --used;
  }
  return (used + size - 1) / size;
}

}  // namespace commlens
