#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/transport/communicator.hpp"

namespace commlens {

class Assistants;
class ThreadGroup;

/// State shared by the ranks of one job of threads: its end, the reason and the rank that ended it, and the
/// assistants.
class ThreadJob {
 public:
  struct End {
    Rank rank;            // that ended it
    std::string message;  // of that rank
    std::string reason;   // what calls of all ranks throw
  };

  /// `ranks`: threads of the job. `assistants`: additional threads that carry out calls while the ranks
  /// compute.
  explicit ThreadJob(std::int64_t ranks, int assistants = 0);
  ThreadJob(const ThreadJob&) = delete;
  ThreadJob& operator=(const ThreadJob&) = delete;
  ~ThreadJob();

  /// Only the first end counts. Wakes all who wait in a group of the job.
  void end(End end);
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }
  void throw_if_ended() const;
  std::optional<End> how_it_ended() const;

  /// How long a thread spins before it sleeps.
  struct SpinLimits {
    int lock_tries = 0;  // for a mutex that another one holds
    int yields = 0;      // while a call is not complete
  };
  const SpinLimits& spin_limits() const { return spin_limits_; }

  /// Null where there are none.
  Assistants* assistants() const { return assistants_.get(); }

 private:
  friend class ThreadGroup;
  void add(ThreadGroup& group);
  void remove(ThreadGroup& group);

  mutable std::mutex mutex_;  // taken before that of a group
  std::vector<ThreadGroup*> groups_;
  std::optional<End> end_;  // unchanged once has_ended_
  std::atomic<bool> has_ended_ = false;
  SpinLimits spin_limits_;
  std::unique_ptr<Assistants> assistants_;
};

/// The state that the ranks of a group share. A call lives in a slot: the ranks post their buffers to it, the
/// threads that wait for it (and the job's assistants) share the work, and the last user releases it for a
/// later call. Calls of all ranks are matched by their number: per group, and per ordered pair for messages.
class ThreadGroup {
 public:
  ThreadGroup(std::shared_ptr<ThreadJob> job, std::vector<Rank> members);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup();

  const std::vector<Rank>& members() const { return members_; }
  ThreadJob& job() const { return *job_; }

  class Slot;
  /// A member's part of a call: its index among the members that make the call.
  struct Part {
    Slot* slot = nullptr;
    std::size_t member = 0;
  };
  /// Adds the part of `self` to its next call; the last rank carries out small calls. A call that does not
  /// match those of other ranks ends the job and throws SystemError.
  Part post(GroupRank self, const CommCall& call);

  /// Shares the work of the call and returns true once it is done; returns false if the job ended before all
  /// ranks posted, after which no rank uses the buffers.
  bool complete(const Part& part);

  /// As complete(), but does not wait for ranks that have not posted.
  bool complete_or_withdraw(const Part& part);

  /// Carries out one piece of the call, if one is left to take; returns whether the call is done.
  bool advance(const Part& part);
  /// Of a call that is done.
  static MovedTimes moved(const Slot& slot);

  /// To be called when a rank, or the assistants, no longer use a completed call; the last one releases the
  /// slot.
  void release(Slot& slot);

  /// An assistant's share of the work; returns when no piece is left to take.
  void assist(Slot& slot);

  /// `self` makes no more calls. Ends the job if another rank waits for a call of `self`, now or later.
  void leave(GroupRank self);

  /// The group of `members` that a split makes, the same for all of them: `split` counts the splits of a
  /// rank.
  std::shared_ptr<ThreadGroup> subgroup(std::int64_t split, std::int64_t color,
                                        const std::vector<Rank>& members);

 private:
  friend class ThreadJob;
  enum class Stage : std::uint8_t { open, ready, done };  // waits for ranks; has pieces to take; complete

  /// Calls that follow each other in order, and how many each member has made.
  struct Channel {
    explicit Channel(std::vector<GroupRank> of_members)
        : members(std::move(of_members)), made(members.size()) {}
    std::vector<GroupRank> members;
    std::vector<std::int64_t> made;
    std::vector<Slot*> open;  // a ring: call number % its size
    std::int64_t first = 0;   // number of the first call that waits for a member
    std::int64_t next = 0;    // number of the first call that none has made
  };

  std::unique_lock<std::mutex> locked() const;
  Channel& channel_of(GroupRank self, const CommCall& call);
  Slot& slot_of(Channel& channel, std::size_t member);
  Slot& unused_slot();
  std::string fault(const Channel& channel, std::size_t member, const CommCall& call) const;
  std::string missing_call(const Channel& channel, GroupRank left) const;
  void begin(Slot& slot);
  std::string parts_fault(const Slot& slot, GroupRank self, const CommCall& call) const;
  void take_pieces(Slot& slot, std::size_t first_owner);
  bool take_piece_of(Slot& slot, std::size_t owner);
  void finish(Slot& slot);
  void sleep(Slot& slot, Stage stage) const;
  bool withdraw(Slot& slot);
  void wake_all();
  std::int64_t rank_of(GroupRank member) const;

  std::shared_ptr<ThreadJob> job_;
  std::vector<Rank> members_;

  mutable std::mutex mutex_;  // all members below, and the state of the slots
  Channel collectives_;
  std::vector<std::unique_ptr<Channel>> pairs_;  // source * size + destination; made when first used
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> unused_;
  std::vector<bool> has_left_;  // by group rank
  bool has_withdrawn_ = false;  // a call will never be complete: slots are not reused

  struct Subgroup {
    std::shared_ptr<ThreadGroup> group;
    std::size_t taken = 0;
  };
  std::mutex subgroups_mutex_;  // taken before that of the job
  std::map<std::pair<std::int64_t, std::int64_t>, Subgroup> subgroups_;
};

}  // namespace commlens
