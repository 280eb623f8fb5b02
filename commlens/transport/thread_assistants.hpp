#pragma once
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "commlens/transport/thread_group.hpp"

namespace commlens {

/// Threads of a job that carry out calls that all their ranks have issued, while the ranks compute. They take
/// pieces like waiting ranks do; a call also completes without them.
class Assistants {
 public:
  /// Starts up to `threads` threads, fewer if the system cannot start more.
  explicit Assistants(int threads);
  Assistants(const Assistants&) = delete;
  Assistants& operator=(const Assistants&) = delete;
  ~Assistants();

  bool any() const { return !threads_.empty(); }

  /// Adds a ready call. The assistants release its slot once, after their last piece.
  void offer(ThreadGroup& group, ThreadGroup::Slot& slot);

  /// Returns when no assistant uses `group`, whose calls are all complete.
  void forget(const ThreadGroup& group);

 private:
  struct Offer {
    ThreadGroup* group = nullptr;
    ThreadGroup::Slot* slot = nullptr;
    int users = 0;
    bool is_exhausted = false;  // no piece is left to take
  };
  using Offers = std::list<Offer>;

  void work();
  Offers::iterator next_offer();
  void leave(Offers::iterator offer, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // of all below but the threads
  std::condition_variable offered_;
  std::condition_variable left_;
  Offers offers_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace commlens
