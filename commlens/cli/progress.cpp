#include "commlens/cli/progress.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <stop_token>
#include <thread>

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::chrono::seconds k_silence{2};
constexpr std::chrono::milliseconds k_refresh{200};

}  // namespace

struct Progress::Painter {
  std::mutex mutex;
  std::condition_variable_any wake;
  bool shown = false;
  std::jthread thread;  // last: it ends before what it uses
};

std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total, double elapsed_s) {
  if (total <= 0 || done <= 0) {
    return fmt::format("{}  {:.0f} s", label, elapsed_s);
  }
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  return fmt::format("{}  {:.0f} %  {:.0f} s left", label, 100.0 * share, elapsed_s / share * (1.0 - share));
}

Progress::Progress(Console& console, std::string label, std::int64_t total) : console_(console) {
  if (!console.err_is_terminal) {
    return;
  }
  painter_ = std::make_unique<Painter>();
  painter_->thread = std::jthread([this, label = std::move(label), total](const std::stop_token& stop) {
    sigset_t all;  // signals go to the working thread: the removal of its files must not race with it
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(painter_->mutex);
    auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(k_silence);
    while (!painter_->wake.wait_for(lock, stop, wait, [&] { return stop.stop_requested(); })) {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      console_.err << "\r\033[K" << progress_line(label, done_.load(), total, elapsed.count()) << std::flush;
      painter_->shown = true;
      wait = k_refresh;
    }
    if (painter_->shown) {
      console_.err << "\r\033[K" << std::flush;
    }
  });
}

Progress::~Progress() = default;

void Progress::above(const std::function<void()>& write) {
  if (!painter_) {
    write();
    return;
  }
  const std::lock_guard lock(painter_->mutex);
  if (painter_->shown) {
    console_.err << "\r\033[K" << std::flush;
    painter_->shown = false;
  }
  write();
}

}  // namespace commlens
