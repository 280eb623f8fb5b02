#pragma once
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace commlens {

/// Runs a shell's command for each alert, without waiting for it: the alert is on its standard input, what it
/// prints goes to standard error. It is ended after k_limit.
class AlertCommand {
 public:
  static constexpr std::chrono::seconds k_limit{30};
  /// At once; further alerts are dropped meanwhile.
  static constexpr std::size_t k_most = 8;

  explicit AlertCommand(std::string command) : command_(std::move(command)) {}
  ~AlertCommand();
  AlertCommand(const AlertCommand&) = delete;
  AlertCommand& operator=(const AlertCommand&) = delete;

  /// Why it could not be started; empty: it was.
  std::string start(const std::string& alert);
  /// Ends those that have had their time, and forgets those that have ended.
  void look();
  bool is_busy() const { return !running_.empty(); }

 private:
  struct Running {
    pid_t process = 0;  // leads a group of its own
    std::chrono::steady_clock::time_point until;
  };
  std::string command_;
  std::vector<Running> running_;
};

}  // namespace commlens
