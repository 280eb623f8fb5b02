#include "commlens/cli/stop_signals.hpp"

#include <atomic>
#include <cerrno>
#include <string_view>

#include <unistd.h>

namespace commlens {
namespace {

constexpr std::array<int, 2> k_signals = {SIGINT, SIGTERM};

// A signal handler can use globals only.
std::atomic<int> first_signal = 0;
std::atomic<bool> acknowledges_flag = false;
std::array<struct sigaction, k_signals.size()> before_first = {};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

void take_note(int signal) {
  constexpr std::string_view answer =
      "\r\033[Kcommlens: stopping after this step; once more to stop at once\n";
  const int error = errno;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (acknowledges_flag) {
    static_cast<void>(!write(STDERR_FILENO, answer.data(), answer.size()));
  }
  for (std::size_t i = 0; i < k_signals.size(); ++i) {
    if (k_signals[i] == signal) {
      sigaction(signal, &before_first[i], nullptr);  // the second signal has its previous effect
    }
  }
  errno = error;
}

}  // namespace

StopSignals::StopSignals(bool acknowledges) {
  first_signal = 0;
  acknowledges_flag = acknowledges;
  struct sigaction action = {};
  action.sa_handler = &take_note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < k_signals.size(); ++i) {
    sigaction(k_signals[i], nullptr, &before_[i]);
    before_first[i] = before_[i];
    sigaction(k_signals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < k_signals.size(); ++i) {
    sigaction(k_signals[i], &before_[i], nullptr);
  }
}

bool StopSignals::came() { return first_signal != 0; }

int StopSignals::first() { return first_signal; }

}  // namespace commlens
