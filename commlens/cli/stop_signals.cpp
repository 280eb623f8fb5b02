#include "commlens/cli/stop_signals.hpp"

#include <atomic>
#include <cerrno>
#include <string_view>

#include <unistd.h>

namespace commlens {
namespace {

constexpr std::array<int, 2> k_signals = {SIGINT, SIGTERM};

// A handler has nothing but what is global.
std::atomic<bool> came_flag = false;
std::atomic<bool> tells_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

void take_note(int) {
  constexpr std::string_view answer =
      "\r\033[Kcommlens: stopping after this iteration; once more to stop at once\n";
  const int error = errno;
  came_flag = true;
  if (tells_flag) {
    static_cast<void>(!write(STDERR_FILENO, answer.data(), answer.size()));
  }
  errno = error;
}

}  // namespace

StopSignals::StopSignals(bool tells) {
  came_flag = false;
  tells_flag = tells;
  struct sigaction action = {};
  action.sa_handler = &take_note;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < k_signals.size(); ++i) {
    sigaction(k_signals[i], &action, &before_[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < k_signals.size(); ++i) {
    sigaction(k_signals[i], &before_[i], nullptr);
  }
}

bool StopSignals::came() { return came_flag; }

}  // namespace commlens
