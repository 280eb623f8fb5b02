#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace commlens {

/// A step of work that may take seconds.
struct ProgressReport {
  enum class Stage : std::uint8_t { begins, goes_on, ends };
  Stage stage = Stage::begins;
  std::string_view task;   // "reading run.log"
  std::int64_t done = 0;   // steps
  std::int64_t total = 0;  // 0: not known
};

/// Callbacks of a caller for warnings and progress while a function of this library works. Both may be empty.
/// They are called by the thread that called the function, one at a time; a task ends before the next one
/// begins.
struct Events {
  std::function<void(const std::string& warning)> warning;
  std::function<void(const ProgressReport&)> progress;

  void warn(const std::string& message) const {
    if (warning) {
      warning(message);
    }
  }
};

/// Reports the begin, each step and the end of a task.
class Task {
 public:
  /// `total` steps are to be done; 0: not known.
  Task(Events events, std::string name, std::int64_t total);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void add(std::int64_t steps);

 private:
  void report(ProgressReport::Stage stage) const;

  Events events_;
  std::string name_;
  std::int64_t done_ = 0;
  std::int64_t total_;
};

}  // namespace commlens
