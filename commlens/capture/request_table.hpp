#pragma once
#include <cstdint>
#include <vector>

#include "commlens/trace/recorder.hpp"

namespace commlens::capture {

class RankGroup;

/// A non-blocking or persistent call whose end is still to come.
struct PendingCall {
  std::uint64_t key = 0;        // the library's handle of the request
  RecordedCall call;            // as posted; of a receive, source and size may turn out otherwise
  RankGroup* source = nullptr;  // receives: whose ranks the status speaks of
  Recorder::Slot slot = Recorder::k_dropped;       // of `call`, while it is under way
  Recorder::Slot sent_slot = Recorder::k_dropped;  // of the send half of a call that does both
  bool is_persistent = false;                      // the request outlives its calls
  bool is_active = false;
  bool is_cancelled = false;  // MPI_Cancel was called
};

/// The pending calls by handle. A library may give one handle to several complete requests at once, and a
/// handle again to a new request before this table hears of the end of the old one (another thread waited for
/// it); so a handle may stand here more than once, and the oldest is the one that ends.
class RequestTable {
 public:
  /// More requests at a time are not followed.
  static constexpr std::size_t k_most = std::size_t{1} << 18;

  RequestTable();
  /// False when the table is full. Throws std::bad_alloc.
  bool add(const PendingCall& call);
  /// The oldest call of the handle; null when there is none. Valid until the next add or remove.
  PendingCall* find(std::uint64_t key) noexcept;
  /// Takes the oldest call of the handle away; no effect when there is none.
  void remove(std::uint64_t key) noexcept;
  std::size_t count() const noexcept { return count_; }

 private:
  static constexpr std::uint32_t k_none = UINT32_MAX;
  struct Node {
    PendingCall call;
    std::uint32_t next = k_none;
  };
  struct Chain {
    std::uint32_t first = k_none;
    std::uint32_t last = k_none;
  };
  Chain& chain_of(std::uint64_t key) noexcept;
  void append(std::uint32_t node) noexcept;
  void grow();

  std::vector<Chain> chains_;  // a power of two
  std::vector<Node> nodes_;
  std::uint32_t free_ = k_none;  // nodes not in use, linked by `next`
  std::size_t count_ = 0;
  int shift_;
};

}  // namespace commlens::capture
