#include "commlens/capture/nccl_poller.hpp"

#include <csignal>

#include <pthread.h>

namespace commlens::capture {

// It inherits the mask of the thread that makes it. Nobody joins it: it may be in the GPU's driver when the
// process ends.
void CallPoller::wake() noexcept {
  if (is_there_.load() || is_stopped_.load() || is_there_.exchange(true)) {
    return;
  }
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    is_stopped_ = true;
    return;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread = {};
  is_stopped_ = pthread_create(&thread, &attributes, &run, this) != 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

void* CallPoller::run(void* poller) noexcept {
  static_cast<CallPoller*>(poller)->poll();
  return nullptr;
}

void CallPoller::poll() noexcept {
  std::unique_lock lock(mutex_);
  for (int idle = 0; !is_stopped_.load();) {
    changed_.wait_for(lock, k_interval, [this] { return is_stopped_.load(); });
    idle = look(lock) ? 0 : idle + 1;
    if (idle < k_idle_looks) {
      continue;
    }
    // What wake() is called for from now on starts another thread; what it was called for before is seen
    // here.
    is_there_ = false;
    if (!look(lock) || is_there_.exchange(true)) {
      return;
    }
    idle = 0;
  }
}

bool CallPoller::look(std::unique_lock<std::mutex>& lock) noexcept {
  if (is_stopped_.load()) {
    return false;
  }
  is_looking_ = true;
  lock.unlock();
  const bool is_any = look_();
  lock.lock();
  is_looking_ = false;
  changed_.notify_all();
  return is_any;
}

void CallPoller::stop() noexcept {
  std::unique_lock lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, k_longest_wait, [this] { return !is_looking_; });
}

}  // namespace commlens::capture
