#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "commlens/capture/nccl_comm.hpp"
#include "commlens/capture/nccl_job.hpp"
#include "commlens/capture/nccl_stream.hpp"

namespace commlens::capture {

/// All that this process records: a stream for each rank of the job that lives in it (usually one), made when
/// it joins its first communicator. Nothing here throws; what goes wrong is counted, or reported once at the
/// end.
class NcclProcess {
 public:
  static constexpr std::size_t k_most_streams = 64;

  /// Null when nothing is recorded: COMMLENS_TRACE is not set, after close(), in a child of fork.
  static NcclProcess* of_process() noexcept;
  /// Closes all files and says once what was lost. When the process ends.
  static void close() noexcept;
  /// Something failed halfway (memory was out): no call is recorded from now on, they are counted. What is
  /// under way may still end.
  static void stop() noexcept;
  bool is_stopped() const noexcept { return is_stopped_.load(std::memory_order_relaxed); }
  /// A call of the program that is not recorded: after stop(), or of a communicator that is not known.
  void count_lost() noexcept { (is_stopped() ? lost_ : lost_of_comms_).fetch_add(1); }

  /// This process is a member of a communicator. Null when it cannot be recorded. A thread that makes a call
  /// holds on to it meanwhile: another one may abort the communicator.
  std::shared_ptr<NcclComm> join(const CommIdentity& identity) noexcept;
  /// The communicator is gone.
  void leave(const std::shared_ptr<NcclComm>& comm) noexcept;

  /// The stream of that index; null when there is none.
  NcclStream* stream(std::uint32_t index) noexcept {
    return index < k_most_streams ? streams_[index].load(std::memory_order_acquire) : nullptr;
  }

  void set_iteration(std::int32_t iteration) noexcept;
  void set_phase(Phase phase) noexcept;
  void set_micro_batch(std::int32_t micro_batch) noexcept;
  void announce_pause(double seconds) noexcept;

 private:
  NcclProcess(std::string directory, LaunchedAs launched);

  NcclStream* stream_of(const CommIdentity& identity);
  NcclStream* open_stream(Rank rank, const CommIdentity& identity);
  bool is_member(const NcclStream& stream, std::uint64_t comm) const;
  void mark_streams() noexcept;
  void close_all() noexcept;
  void count_into_files();

  std::mutex mutex_;  // all below
  const std::string asked_;
  const LaunchedAs launched_;
  std::optional<JobDirectory> directory_;
  std::array<std::atomic<NcclStream*>, k_most_streams> streams_ = {};
  std::vector<int> devices_;  // of the streams
  bool is_one_rank_ = false;  // the launcher numbers the ranks, and each process is one
  std::int64_t job_ranks_ = 0;
  std::deque<std::shared_ptr<NcclComm>> comms_;
  std::int32_t iteration_ = k_init_iteration;  // what the program has marked, also for streams to come
  NcclStream::Position position_;
  bool is_broken_ = false;
  std::string trouble_;

  std::atomic<bool> is_stopped_ = false;
  std::atomic<std::int64_t> lost_ = 0;           // calls after stop()
  std::atomic<std::int64_t> lost_of_comms_ = 0;  // of communicators that are not recorded
};

}  // namespace commlens::capture
