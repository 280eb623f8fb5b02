#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "commlens/transport/communicator.hpp"

namespace commlens {

/// The call that a rank waits for, as read by other ranks.
struct WaitedCall {
  static constexpr std::size_t k_tag_bytes = 40;
  std::uint64_t group = 0;  // key of its group
  std::int64_t number = 0;  // of the call: the number of previous calls on the group (with the peer)
  std::int64_t input = 0;   // elements
  std::int64_t output = 0;
  std::int32_t peer = 0;  // group rank
  CommKind kind = CommKind::barrier;
  DType dtype = DType::uint8;
  OtherCall other = OtherCall::none;
  std::array<char, 1> unused{};
  std::array<char, k_tag_bytes> tag{};  // its beginning, ended by 0
};

/// The calls of one rank on one group (or to or from one rank of it).
struct GroupCalls {
  static constexpr std::int64_t k_remembered = 32;
  std::atomic<std::uint64_t> key = 0;
  std::atomic<std::int64_t> made = 0;
  std::array<std::atomic<std::int64_t>, k_remembered>
      issued_ns{};  // of call `number` at number % k_remembered

  void add(std::int64_t now_ns);
  /// The time at which the rank issued that call; std::nullopt if it has not, or too many calls ago.
  std::optional<std::int64_t> issue_of(std::int64_t number) const;
};

/// Data written by one rank and read by others. In memory shared by processes: atomics only.
class RankEntry {
 public:
  /// Null where there is none.
  const GroupCalls* find(std::uint64_t key) const;
  /// For the rank itself; null when the table is full.
  GroupCalls* find_or_add(std::uint64_t key);

  void join() { present_.store(1, std::memory_order_release); }
  /// Whether the rank shares this memory.
  bool is_present() const { return present_.load(std::memory_order_acquire) != 0; }

  void wait_for(const WaitedCall& call, std::int64_t now_ns);
  void stop_waiting() { waits_from_ns_.store(0, std::memory_order_release); }
  struct Waiting {
    WaitedCall call;
    std::int64_t from_ns = 0;
  };
  /// std::nullopt if the rank waits for no call, or is just changing to the next one.
  std::optional<Waiting> waiting() const;

 private:
  static constexpr std::size_t k_groups = 128;
  static constexpr std::size_t k_words = sizeof(WaitedCall) / sizeof(std::uint64_t);
  static_assert(sizeof(WaitedCall) % sizeof(std::uint64_t) == 0);

  std::atomic<std::int64_t> present_ = 0;
  std::atomic<std::int64_t> waits_from_ns_ = 0;  // 0: it does not
  std::array<std::atomic<std::uint64_t>, k_words> call_{};
  std::array<GroupCalls, k_groups> groups_;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

/// The calls that the ranks of a job on one machine wait for, and their numbers of calls.
class CallBoard {
 public:
  /// Of `ranks` threads of this process.
  static CallBoard of_threads(std::int64_t ranks);
  /// Of processes; collective over `world`. Ranks that cannot share memory with this one (on other machines,
  /// in other containers) are not present.
  static CallBoard of_processes(Communicator& world);

  RankEntry& entry(std::int64_t rank) const { return entries_[rank]; }
  std::int64_t ranks() const { return ranks_; }

  /// True for the first process that shares the memory.
  bool claim_end() const { return end_claimed_->exchange(1) == 0; }

 private:
  CallBoard(std::shared_ptr<void> memory, std::int64_t ranks);

  std::shared_ptr<void> memory_;
  std::atomic<std::int64_t>* end_claimed_ = nullptr;
  RankEntry* entries_ = nullptr;
  std::int64_t ranks_ = 0;
};

}  // namespace commlens
