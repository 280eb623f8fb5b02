#pragma once
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "commlens/app/events.hpp"

namespace commlens {

/// Runs a shell's command for each alert, without waiting for it: the alert is on its standard input, what it
/// prints goes to standard error. After k_limit it is ended, and what it has left running in its process
/// group. A command that fails or is ended is a warning.
class AlertCommand {
 public:
  static constexpr std::chrono::seconds k_limit{30};
  /// At once; further alerts are dropped meanwhile.
  static constexpr std::size_t k_most = 8;

  AlertCommand(std::string command, Events warnings)
      : command_(std::move(command)), warnings_(std::move(warnings)) {}
  ~AlertCommand();
  AlertCommand(const AlertCommand&) = delete;
  AlertCommand& operator=(const AlertCommand&) = delete;

  /// Why it could not be started; empty: it was.
  std::string start(const std::string& alert);
  /// Ends those that have had their time, and forgets those that have ended.
  void look(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  bool is_busy() const { return !running_.empty(); }

 private:
  struct Running {
    pid_t process = 0;  // leads a group of its own
    std::chrono::steady_clock::time_point until;
    bool is_group_alone = false;  // it has ended, others of its group have not
  };
  bool is_over(Running& running, std::chrono::steady_clock::time_point now) const;

  std::string command_;
  Events warnings_;
  std::vector<Running> running_;
};

}  // namespace commlens
