#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Throws SystemError "FUNCTION failed: MPI's error text" unless `status` is MPI_SUCCESS.
void mpi_check(int status, const char* function);

/// Throws SystemError unless a message had `expected` bytes.
void check_received(const MPI_Status& status, int expected);

/// Memory for copies of inputs. Reused, because the system takes longer to provide a page than to copy it.
class MpiBuffers {
 public:
  using Memory = std::vector<char>;
  /// Memory of at least that size; thread-safe.
  Memory take(std::size_t bytes);
  void give_back(Memory memory);

 private:
  std::mutex mutex_;
  std::vector<Memory> unused_;
};

class MpiProgress;

/// Nonblocking MPI calls that make up one call.
class MpiWork final : public Work {
 public:
  /// `progress` completes it in the background; null: only wait() and is_complete() do.
  explicit MpiWork(MpiProgress* progress) : progress_(progress) {}
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;
  ~MpiWork() override;

  void wait() override;
  bool is_complete() override;
  std::optional<MovedTimes> moved() const override { return MovedTimes{started_ns_, finished_ns_}; }

  struct Pending {
    MPI_Request request = MPI_REQUEST_NULL;
    const char* function = "";
    int received_bytes = -1;  // recv: the size that the message must have
  };
  Pending& add(const char* function) { return pending_.emplace_back(Pending{.function = function}); }
  /// A copy of the input that lives until the call is complete.
  char* keep(MpiBuffers& buffers, std::size_t bytes);
  /// Counts that MPI reads until the call is complete.
  const int* keep(std::vector<int> counts);
  /// The sums in `output` become averages over `ranks` when the call is complete.
  void average_when_complete(DType type, void* output, Elements count, std::int64_t ranks);
  /// All MPI calls have been made.
  void issued();

 private:
  friend class MpiProgress;
  bool test();
  void finish();
  void throw_failure() const;

  MpiProgress* progress_;
  std::vector<Pending> pending_;
  std::size_t done_ = 0;  // of pending_, from the first on
  bool is_complete_ = false;
  std::string failure_;
  // Without progress in the background, data start to move when the rank first queries the call.
  std::int64_t started_ns_ = 0;
  std::int64_t finished_ns_ = 0;
  struct Sums {
    DType type = DType::fp32;
    void* output = nullptr;
    Elements count;
    std::int64_t ranks = 1;
  };
  std::optional<Sums> averaged_;
  std::vector<std::vector<int>> counts_;
  MpiBuffers* buffers_ = nullptr;
  MpiBuffers::Memory copy_;
};

/// A thread of the process that progresses messages while the rank computes (collectives use MpiCallQueue).
/// Needs MPI_THREAD_MULTIPLE.
class MpiProgress {
 public:
  MpiProgress();
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;
  ~MpiProgress();

  void add(MpiWork& work);
  /// Removes `work`: from now on only the caller uses it.
  void take(MpiWork& work);

  /// Ends the thread, before MPI ends.
  void stop();

 private:
  void run();

  std::mutex mutex_;  // of the works in the list, too
  std::condition_variable added_;
  std::vector<MpiWork*> works_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace commlens
