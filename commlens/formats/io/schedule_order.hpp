#pragma once
#include <cstdint>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// The calls of a rank in the order in which they started ("positions"), and which later call was the first
/// to find each of them finished: what a program does between two calls of its own can rest on those alone
/// that had finished. So a blocking call is waited for by the next one, a non-blocking one by the first call
/// after its wait.
class CallOrder {
 public:
  static constexpr std::uint32_t k_never = UINT32_MAX;

  /// Without times every call is waited for by the next one.
  explicit CallOrder(const RankStream& stream);

  std::uint32_t calls() const { return calls_; }
  bool is_that_of_rows() const { return rows_.empty(); }
  /// The row in the stream's events.
  std::uint32_t row(std::uint32_t position) const { return rows_.empty() ? position : rows_[position]; }
  /// The position that waits for this one, above it; k_never where no call started after it had finished.
  std::uint32_t waited_at(std::uint32_t position) const {
    return !waited_at_.empty() ? waited_at_[position] : position + 1 < calls_ ? position + 1 : k_never;
  }

 private:
  std::uint32_t calls_ = 0;
  std::vector<std::uint32_t> rows_;       // empty: the stream is in order
  std::vector<std::uint32_t> waited_at_;  // empty: without times
};

}  // namespace commlens::formats
