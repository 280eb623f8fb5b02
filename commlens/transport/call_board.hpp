#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "commlens/transport/communicator.hpp"

namespace commlens {

/// The call that a rank waits for, as others read it.
struct WaitedCall {
  static constexpr std::size_t k_tag_bytes = 40;
  std::uint64_t group = 0;  // key of its group
  std::int64_t number = 0;  // of the call: how many like it the rank made before on the group (with the peer)
  std::int64_t input = 0;   // elements
  std::int64_t output = 0;
  std::int32_t peer = 0;  // group rank
  CommKind kind = CommKind::barrier;
  DType dtype = DType::uint8;
  std::array<char, 2> unused{};
  std::array<char, k_tag_bytes> tag{};  // its beginning, ended by 0
};

/// Calls that one rank has made on one group (or to or from one rank of it).
struct GroupCalls {
  static constexpr std::int64_t k_remembered = 32;
  std::atomic<std::uint64_t> key = 0;
  std::atomic<std::int64_t> made = 0;
  std::array<std::atomic<std::int64_t>, k_remembered>
      issued_ns{};  // of call `number` at number % k_remembered

  void add(std::int64_t now_ns);
  /// When the rank issued that call; std::nullopt if it has not, or long ago.
  std::optional<std::int64_t> issue_of(std::int64_t number) const;
};

/// What one rank writes and others read. In memory of several processes: nothing but atomics.
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
  /// Nothing while the rank waits for no call, or goes from one to the next at this moment.
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

/// What the ranks of a job that share a machine wait for, and how many calls they have made.
class CallBoard {
 public:
  /// Of `ranks` threads of this process.
  static CallBoard of_threads(std::int64_t ranks);
  /// Of processes; collective over `world`. Ranks that cannot share memory with this one (on other machines,
  /// in other containers) are not present.
  static CallBoard of_processes(Communicator& world);

  RankEntry& entry(std::int64_t rank) const { return entries_[rank]; }
  std::int64_t ranks() const { return ranks_; }

  /// True for the first one of those who share the memory.
  bool claim_end() const { return end_claimed_->exchange(1) == 0; }

 private:
  CallBoard(std::shared_ptr<void> memory, std::int64_t ranks);

  std::shared_ptr<void> memory_;
  std::atomic<std::int64_t>* end_claimed_ = nullptr;
  RankEntry* entries_ = nullptr;
  std::int64_t ranks_ = 0;
};

}  // namespace commlens
