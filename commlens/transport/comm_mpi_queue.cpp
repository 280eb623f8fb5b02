// Part of the module libcommlens-mpi-*.so.
#include "commlens/transport/comm_mpi_queue.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens {

/// A call in a queue.
class QueuedWork final : public Work {
 public:
  QueuedWork(MpiCallQueue& queue, std::shared_ptr<MpiCallQueue::Entry> entry)
      : queue_(queue), entry_(std::move(entry)) {}

  QueuedWork(const QueuedWork&) = delete;
  QueuedWork& operator=(const QueuedWork&) = delete;
  ~QueuedWork() override {
    if (std::uncaught_exceptions() > 0) {
      queue_.give_up(*entry_);
    }
  }

  void wait() override {
    queue_.wait_for(*entry_);
    throw_failure();
  }

  bool is_complete() override {
    if (!entry_->is_done.load(std::memory_order_acquire)) {
      return false;
    }
    throw_failure();
    return true;
  }

  std::optional<MovedTimes> moved() const override { return entry_->moved; }

 private:
  void throw_failure() const {
    if (!entry_->failure.empty()) {
      throw SystemError(entry_->failure);
    }
  }

  MpiCallQueue& queue_;
  std::shared_ptr<MpiCallQueue::Entry> entry_;
};

MpiCallQueue::~MpiCallQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::unique_ptr<Work> MpiCallQueue::start(const CommCall& call) {
  auto entry = std::make_shared<Entry>();
  entry->call = call;
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
    if (!thread_.joinable()) {
      thread_ = std::thread(&MpiCallQueue::make_calls, this);
    }
  }
  changed_.notify_all();
  return std::make_unique<QueuedWork>(*this, std::move(entry));
}

/// Immediately if no call is before it.
void MpiCallQueue::run(const CommCall& call) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = entries_.empty();
  }
  if (is_first) {
    run_mpi_call(*job_, comm_, call);
  } else {
    start(call)->wait();
  }
}

void MpiCallQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return entries_.empty(); });
}

void MpiCallQueue::wait_for(const Entry& entry) {
  constexpr int k_patience = 100;
  for (int i = 0; i < k_patience && !entry.is_done.load(std::memory_order_acquire); ++i) {
    std::this_thread::yield();
  }
  if (entry.is_done.load(std::memory_order_acquire)) {
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return entry.is_done.load(std::memory_order_acquire); });
}

/// An exception destroys the buffers, and is about to end the job. A running call completes if the other
/// ranks have made it too; if not, the wait for it is short.
void MpiCallQueue::give_up(const Entry& entry) {
  constexpr std::chrono::seconds k_patience{2};
  const auto is_entry = [&](const std::shared_ptr<Entry>& one) { return one.get() == &entry; };
  std::unique_lock lock(mutex_);
  if (!entries_.empty() && !is_entry(entries_.front())) {
    std::erase_if(entries_, is_entry);
    return;
  }
  changed_.wait_for(lock, k_patience, [&] { return entry.is_done.load(std::memory_order_acquire); });
}

void MpiCallQueue::make_calls() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over_ || !entries_.empty(); });
    if (is_over_) {
      return;
    }
    const std::shared_ptr<Entry> entry = entries_.front();
    lock.unlock();
    entry->moved.started_ns = Clock::of_process().now_ns();
    try {
      run_mpi_call(*job_, comm_, entry->call);
    } catch (const SystemError& error) {
      entry->failure = error.what();
    }
    entry->moved.finished_ns = Clock::of_process().now_ns();
    lock.lock();
    entries_.pop_front();
    entry->is_done.store(true, std::memory_order_release);
    changed_.notify_all();
  }
}

}  // namespace commlens
