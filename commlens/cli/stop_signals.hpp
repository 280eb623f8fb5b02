#pragma once
#include <array>
#include <csignal>

namespace commlens {

/// During its lifetime, the first SIGINT or SIGTERM is a request to stop; the second one ends the process as
/// usual.
class StopSignals {
 public:
  /// `acknowledges`: the first signal is acknowledged on standard error.
  explicit StopSignals(bool acknowledges);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether a signal arrived. Thread-safe.
  static bool came();
  /// The first signal that arrived; 0: none.
  static int first();

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace commlens
