#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "commlens/cli/console.hpp"

namespace commlens {

/// A progress line on a terminal's standard error for work of more than two seconds: percentage and remaining
/// time, or elapsed time if the amount of work is not known. Removed at the end of the work.
class Progress {
 public:
  /// `total` steps are to be done; 0: not known.
  Progress(Console& console, std::string label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Runs `write`, which may write lines to the same terminal; they appear above this one.
  void above(const std::function<void()>& write);

  void add(std::int64_t steps) { done_.fetch_add(steps, std::memory_order_relaxed); }

 private:
  struct Painter;  // the thread that writes; absent if there is no terminal
  Console& console_;
  std::atomic<std::int64_t> done_ = 0;
  std::unique_ptr<Painter> painter_;
};

/// "predicting  42 %  3 s left", or "reading run.log  5 s" when `total` is 0.
std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total, double elapsed_s);

}  // namespace commlens
