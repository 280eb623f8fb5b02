#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <mpi.h>

#include "commlens/transport/comm_mpi_calls.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Collective calls of one communicator, made by a separate thread as blocking MPI calls, one after the
/// other, while the rank computes. Each communicator has a queue, so that calls of two of them do not wait
/// for each other. Needs MPI_THREAD_MULTIPLE. Used by the rank's thread only; `comm` must outlive it.
class MpiCallQueue {
 public:
  MpiCallQueue(std::shared_ptr<const MpiJob> job, MPI_Comm comm) : job_(std::move(job)), comm_(comm) {}
  MpiCallQueue(const MpiCallQueue&) = delete;
  MpiCallQueue& operator=(const MpiCallQueue&) = delete;
  /// Returns once the running call is complete; queued ones are not made.
  ~MpiCallQueue();

  std::unique_ptr<Work> start(const CommCall& call);
  void run(const CommCall& call);
  /// Returns once all calls are complete: another collective call may follow them.
  void drain();

 private:
  friend class QueuedWork;
  struct Entry {
    CommCall call;
    std::atomic<bool> is_done = false;
    MovedTimes moved;     // the members below are unchanged once done
    std::string failure;  // why it is not complete
  };

  void make_calls();
  void give_up(const Entry& entry);
  void wait_for(const Entry& entry);

  std::shared_ptr<const MpiJob> job_;
  MPI_Comm comm_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> entries_;  // the first one is running
  bool is_over_ = false;
  std::thread thread_;  // since the first call
};

}  // namespace commlens
