#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <sched.h>

#include "commlens/capture/call_sites.hpp"
#include "commlens/capture/nccl_calls.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/trace/comm_members.hpp"
#include "commlens/trace/recorder.hpp"

namespace commlens::capture {

/// What a record lacks.
enum class NcclNote : std::uint8_t { enqueued, size_unknown, both };
/// As a call's note says it; `enqueued`: its duration is that of enqueuing it.
constexpr std::array<std::string_view, 3> k_nccl_notes = {"enqueued only", "communicator size not known",
                                                          "enqueued only, communicator size not known"};

/// Which ranks of the job form a group, in terms of a communicator.
struct GroupOfComm {
  enum class Shape : std::uint8_t { whole, to_peer, from_peer };
  std::uint64_t comm = 0;
  CommunicatorId communicator{};  // what distinguishes it from others of the same ranks
  int rank = 0;
  int size = 0;  // 0: not known
  bool is_likely_world =
      false;  // as many members as the job has ranks, and this one has the same number in both
  Shape shape = Shape::whole;
  int peer = 0;
};

/// The recording of one rank of the job. All but begin_turn and close is called in the turn of one thread:
/// NCCL calls a plug-in from threads of the program and from its own.
class NcclStream {
 public:
  /// Opens the rank's files. Throws SystemError.
  NcclStream(std::filesystem::path directory, Rank self, std::uint32_t index);

  /// One thread at a time.
  class Turn {
   public:
    explicit Turn(NcclStream& stream) : lock_(stream.lock_) {
      while (lock_.exchange(true, std::memory_order_acquire)) {
        sched_yield();
      }
    }
    ~Turn() { lock_.store(false, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    std::atomic<bool>& lock_;
  };

  Rank self() const { return self_; }
  std::uint32_t index() const { return index_; }  // among the streams of this process
  const std::filesystem::path& directory() const { return directory_; }
  Recorder& recorder() { return recorder_; }
  std::int64_t now_ns() const { return clock_.now_ns(); }

  NameId name(NcclFunction function);
  /// Of the call that returns to `caller`; 0 unless call sites were asked for.
  std::uint16_t site(const void* caller) { return sites_ == nullptr ? 0 : sites_->of(caller); }
  NameId note(NcclNote note) const { return notes_.at(static_cast<std::size_t>(note)); }
  /// A group whose members are not all known: until they are, other ranks stand for them, which no other
  /// group has and the job has not either. `known` are those that are known, by rank in the communicator.
  GroupId unresolved(const GroupOfComm& group, const std::vector<Rank>& members);
  /// Numbers for `count` members that are not known.
  Rank strangers(int count);

  /// The phase and micro-batch of a call, kept until its end is known.
  struct Position {
    Phase phase = Phase::other;  // until the program says so
    std::int32_t micro_batch = k_no_micro_batch;
  };
  Position position() const { return {recorder_.phase(), recorder_.micro_batch()}; }
  /// Ends a call as one of the position at which it began.
  void finish(Recorder::Slot slot, const RecordedCall& call, const Times& times, const Position& position);

  void skip(const char* reason) { recorder_.skip(reason); }

  /// What recording costs the program: the time since `start_ns`, which was spent on a call (or on a part of
  /// it).
  void add_cost(std::int64_t start_ns, int calls) {
    spent_ns_ += now_ns() - start_ns;
    calls_ += calls;
  }

  /// Closes the files and puts the ranks that have become known into them. `job_ranks`: of the whole job.
  void close(std::int64_t job_ranks) noexcept;

 private:
  void correct_tables(std::int64_t job_ranks) const;

  std::filesystem::path directory_;
  Rank self_;
  std::uint32_t index_;
  const Clock& clock_;
  std::atomic<bool> lock_ = false;
  Recorder recorder_;
  std::unique_ptr<CallSites> sites_;  // null: not asked for
  std::array<NameId, 16> names_ = {};
  std::array<NameId, k_nccl_notes.size()> notes_ = {};
  std::map<std::uint32_t, GroupOfComm> unresolved_;  // by row of the group
  std::int64_t spent_ns_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t next_stranger_ = k_first_stranger.value;
};

}  // namespace commlens::capture
