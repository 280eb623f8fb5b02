#pragma once
#include <array>
#include <csignal>

namespace commlens {

/// While one lives, the first SIGINT or SIGTERM is a wish to stop; the second one ends the process as usual.
class StopSignals {
 public:
  /// `tells`: the first signal is answered on standard error.
  explicit StopSignals(bool tells);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Any thread may ask.
  static bool came();
  /// The first one that came; 0: none did.
  static int first();

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace commlens
