// Part of the module libcommlens-mpi-*.so.
#include "commlens/transport/comm_mpi_work.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/transport/comm_mpi_operations.hpp"

namespace commlens {

void mpi_check(int status, const char* function) {
  if (status == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw SystemError(fmt::format("{} failed: {}", function, text));
}

void check_received(const MPI_Status& status, int expected) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != expected) {
    throw SystemError(fmt::format("a message has {} bytes where its receiver expects {}", bytes, expected));
  }
}

MpiBuffers::Memory MpiBuffers::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(unused_.begin(), unused_.end(),
                                  [&](const Memory& memory) { return memory.size() >= bytes; });
  if (place != unused_.end()) {
    Memory memory = std::move(*place);
    unused_.erase(place);
    return memory;
  }
  if (!unused_.empty()) {
    unused_.pop_back();  // too small: a larger one takes its place
  }
  return Memory(bytes);
}

void MpiBuffers::give_back(Memory memory) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(std::move(memory));
}

MpiWork::~MpiWork() {
  if (progress_ != nullptr) {
    progress_->take(*this);
  }
}

char* MpiWork::keep(MpiBuffers& buffers, std::size_t bytes) {
  buffers_ = &buffers;
  copy_ = buffers.take(bytes);
  return copy_.data();
}

const int* MpiWork::keep(std::vector<int> counts) { return counts_.emplace_back(std::move(counts)).data(); }

void MpiWork::average_when_complete(DType type, void* output, Elements count, std::int64_t ranks) {
  averaged_ = Sums{type, output, count, ranks};
}

void MpiWork::issued() {
  if (progress_ != nullptr) {
    started_ns_ = Clock::of_process().now_ns();
    progress_->add(*this);
  }
}

void MpiWork::wait() {
  if (progress_ != nullptr) {
    progress_->take(*this);
    progress_ = nullptr;
  }
  throw_failure();
  if (is_complete_) {
    return;
  }
  if (started_ns_ == 0) {
    started_ns_ = Clock::of_process().now_ns();
  }
  for (; done_ < pending_.size(); ++done_) {
    Pending& pending = pending_[done_];
    MPI_Status status{};
    mpi_check(MPI_Wait(&pending.request, &status), pending.function);
    if (pending.received_bytes >= 0) {
      check_received(status, pending.received_bytes);
    }
  }
  finish();
}

bool MpiWork::is_complete() {
  if (progress_ != nullptr) {
    MpiProgress* const progress = progress_;
    progress->take(*this);
    if (!is_complete_ && failure_.empty()) {
      progress->add(*this);
      return false;
    }
    progress_ = nullptr;
  }
  throw_failure();
  if (started_ns_ == 0) {
    started_ns_ = Clock::of_process().now_ns();
  }
  return test();
}

/// Progresses the call; returns whether it is complete.
bool MpiWork::test() {
  for (; done_ < pending_.size(); ++done_) {
    Pending& pending = pending_[done_];
    MPI_Status status{};
    int is_done = 0;
    mpi_check(MPI_Test(&pending.request, &is_done, &status), pending.function);
    if (is_done == 0) {
      return false;
    }
    if (pending.received_bytes >= 0) {
      check_received(status, pending.received_bytes);
    }
  }
  finish();
  return true;
}

void MpiWork::finish() {
  if (is_complete_) {
    return;
  }
  is_complete_ = true;
  if (averaged_) {
    average(averaged_->type, averaged_->output, averaged_->count, averaged_->ranks);
  }
  finished_ns_ = Clock::of_process().now_ns();
  if (buffers_ != nullptr) {
    buffers_->give_back(std::move(copy_));
  }
}

void MpiWork::throw_failure() const {
  if (!failure_.empty()) {
    throw SystemError(failure_);
  }
}

MpiProgress::MpiProgress() : thread_(&MpiProgress::run, this) {}

MpiProgress::~MpiProgress() { stop(); }

void MpiProgress::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  added_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void MpiProgress::add(MpiWork& work) {
  {
    const std::lock_guard lock(mutex_);
    works_.push_back(&work);
  }
  added_.notify_one();
}

void MpiProgress::take(MpiWork& work) {
  const std::lock_guard lock(mutex_);
  std::erase(works_, &work);
}

void MpiProgress::run() {
  // A thread with a free core may poll all the time; without one, the ranks need theirs.
  constexpr int k_patience = 1000;
  constexpr std::chrono::microseconds k_pause{50};
  int fruitless = 0;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (works_.empty()) {
      added_.wait(lock, [&] { return is_over_ || !works_.empty(); });
      fruitless = 0;
      continue;
    }
    const std::size_t completed = std::erase_if(works_, [](MpiWork* work) {
      try {
        return work->test();
      } catch (const SystemError& error) {
        work->failure_ = error.what();
        return true;
      }
    });
    fruitless = completed > 0 ? 0 : fruitless + 1;
    lock.unlock();
    if (fruitless < k_patience) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(k_pause);
    }
    lock.lock();
  }
}

}  // namespace commlens
