#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "commlens/capture/nccl_gpu.hpp"
#include "commlens/capture/nccl_stream.hpp"

namespace commlens::capture {

/// A call that is under way.
struct ShimRecord {
  NcclStream* recording = nullptr;  // null: not recorded
  RecordedCall call;
  Recorder::Slot slot = Recorder::k_dropped;
  NcclStream::Position position;
  std::int64_t issued_ns = 0;
  std::int64_t enqueued_ns = 0;
  void* stream = nullptr;
  int device = -1;
  std::shared_ptr<GpuTimes::Span> span;
  bool has_started = false;  // on the GPU, and the file says so
};

/// Ends a call of which more than that it was enqueued is not known, in its stream's turn.
void finish_enqueued(const ShimRecord& record);

/// Calls whose end on the GPU is still to be seen; until it is, they are under way in the file, too. The
/// program looks at them when it calls NCCL, and a thread when it does not (nccl_poller.hpp).
class PendingCalls {
 public:
  static constexpr std::size_t k_most = 4096;

  static PendingCalls& of_process();

  /// Of more than k_most the oldest counts as enqueued only. Throws std::bad_alloc.
  void add(const ShimRecord& record);
  /// Writes the times of calls that the GPU has carried out by now; looks at the oldest `most`. Streams of
  /// the GPU run beside each other, so that a later call may end first. Not while another thread looks.
  void look(std::size_t most);
  /// The same of all, and which of the others have begun; from a thread that is not the program's, which
  /// never waits for it. Returns whether any is left.
  bool look_apart();
  /// Looks at all; what is left counts as enqueued only.
  void finish();

 private:
  std::mutex mutex_;
  std::list<ShimRecord> calls_;
};

/// PendingCalls::look of the process, where it is recorded.
void look_at_pending(std::size_t most) noexcept;
constexpr std::size_t k_few = 16;
constexpr std::size_t k_all_pending = PendingCalls::k_most;

}  // namespace commlens::capture
