#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace commlens::capture {

/// A thread that looks once a second at what is under way on the GPU, while anything is: the program may
/// compute for long before it calls NCCL again. It handles no signal of the process, and ends when nothing
/// was under way for k_idle_looks. Lives as long as the process; a child of fork must not use it.
class CallPoller {
 public:
  static constexpr std::chrono::milliseconds k_interval{1000};
  static constexpr int k_idle_looks = 3;

  /// `has_any` looks at what is under way and returns whether anything is left.
  explicit CallPoller(bool (*has_any)() noexcept) : look_(has_any) {}

  /// Something is under way. Starts the thread where there is none; where it cannot be made, nothing happens.
  void wake() noexcept;
  /// For good. Waits until the thread does not look any more, but not for longer than k_longest_wait.
  void stop() noexcept;

 private:
  static constexpr std::chrono::milliseconds k_longest_wait{200};

  static void* run(void* poller) noexcept;
  void poll() noexcept;
  bool look(std::unique_lock<std::mutex>& lock) noexcept;

  bool (*look_)() noexcept;
  std::atomic<bool> is_there_ = false;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_looking_ = false;
};

}  // namespace commlens::capture
