#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "commlens/transport/call_board.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

struct WatchOptions {
  /// Longest time that a rank waits for one call; 0: any.
  std::chrono::nanoseconds timeout{};
  /// Called once if the job, ended by a timeout, has not ended after `grace`: a rank is stuck outside of
  /// communication and cannot be interrupted. It should end the process with the message "rank 0: REASON".
  /// Null: the others wait for that rank.
  std::function<void(const std::string& reason)> give_up;
  std::chrono::nanoseconds grace{std::chrono::seconds(5)};
};

/// Watches the ranks of this process, so that none waits forever for a missing rank: after the timeout it
/// aborts the job, with a reason that names the rank, its call, and the ranks of the group that have not made
/// it. The first process on the machine reports; the board has the states of other processes' ranks.
class CallWatch : public std::enable_shared_from_this<CallWatch> {
 public:
  static std::shared_ptr<CallWatch> make(CallBoard board, WatchOptions options);
  CallWatch(CallBoard board, WatchOptions options);
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
  ~CallWatch();

  /// Decorates the communicator of all ranks, and those made from it by split(). Its abort() must not wait
  /// for ranks. `layer` distinguishes transports if a rank uses several at once.
  std::unique_ptr<Communicator> watched(std::unique_ptr<Communicator> world, std::uint64_t layer = 1);

 private:
  friend class WatchedCommunicator;
  friend class WatchedWork;

  /// A device call, for which its rank does not block in wait().
  struct Unfinished {
    std::int64_t rank = 0;
    RankEntry::Waiting waiting;
    std::vector<WaitedCall> rest;  // issued as one with it
    std::unique_ptr<Work> work;
  };

  void add(Communicator& world);
  void remove(Communicator& world);
  void add_group(std::uint64_t key, const std::vector<Rank>& members);
  void keep(Unfinished call);
  /// What a rank waits for besides the call on the board: calls that were issued as one.
  void set_rest(std::int64_t rank, std::vector<WaitedCall> calls);
  void run();
  void look();
  RankEntry::Waiting hindered(std::int64_t rank, const RankEntry::Waiting& first,
                              const std::vector<WaitedCall>& rest) const;
  void end_job(std::int64_t rank, const RankEntry::Waiting& waiting);
  std::string reason_of(std::int64_t rank, const RankEntry::Waiting& waiting) const;
  struct Absent {
    std::vector<Rank> missing;
    std::vector<Rank> unknown;
  };
  std::string call_text(const WaitedCall& call) const;
  std::uint64_t key_of_others(std::int64_t rank, const WaitedCall& call) const;
  Absent absent(std::int64_t rank, const WaitedCall& call) const;
  std::string missing_text(const std::vector<Rank>& missing) const;

  CallBoard board_;
  WatchOptions options_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable over_changed_;
  bool is_over_ = false;
  std::vector<Communicator*> worlds_;  // of the ranks of this process
  std::map<std::uint64_t, std::vector<Rank>> groups_;
  std::map<std::int64_t, std::vector<WaitedCall>> rest_;  // by rank
  std::vector<Unfinished> unfinished_;
  std::string ended_for_;  // the reason, once a rank has waited too long
  std::int64_t ended_rank_ = 0;
  std::int64_t ended_ns_ = 0;
  std::thread thread_;
};

}  // namespace commlens
