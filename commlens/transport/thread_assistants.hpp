#pragma once
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "commlens/transport/thread_group.hpp"

namespace commlens {

/// Threads of a job that carry out calls all ranks of which have issued them, while these compute. They take
/// pieces like the ranks that wait; a call never needs them.
class Assistants {
 public:
  /// Starts up to `threads`; fewer where the system has no more.
  explicit Assistants(int threads);
  Assistants(const Assistants&) = delete;
  Assistants& operator=(const Assistants&) = delete;
  ~Assistants();

  bool any() const { return !threads_.empty(); }

  /// Adds a call that is ready. They release the slot once, when they are done with it.
  void offer(ThreadGroup& group, ThreadGroup::Slot& slot);

  /// Returns when they have nothing of `group`, whose calls are all complete, in their hands.
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
