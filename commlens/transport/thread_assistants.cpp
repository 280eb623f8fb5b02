#include "commlens/transport/thread_assistants.hpp"

#include <algorithm>
#include <system_error>

namespace commlens {

Assistants::Assistants(int threads) {
  for (int i = 0; i < threads; ++i) {
    try {
      threads_.emplace_back(&Assistants::work, this);
    } catch (const std::system_error&) {
      break;  // calls are then carried out by the ranks that wait
    }
  }
}

Assistants::~Assistants() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  offered_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Assistants::offer(ThreadGroup& group, ThreadGroup::Slot& slot) {
  {
    const std::lock_guard lock(mutex_);
    offers_.push_back({.group = &group, .slot = &slot});
  }
  offered_.notify_all();
}

void Assistants::forget(const ThreadGroup& group) {
  const auto is_of_group = [&](const Offer& offer) { return offer.group == &group; };
  std::unique_lock lock(mutex_);
  offers_.remove_if([&](const Offer& offer) { return is_of_group(offer) && offer.users == 0; });
  left_.wait(lock, [&] { return std::none_of(offers_.begin(), offers_.end(), is_of_group); });
}

Assistants::Offers::iterator Assistants::next_offer() {
  return std::find_if(offers_.begin(), offers_.end(), [](const Offer& offer) { return !offer.is_exhausted; });
}

void Assistants::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    offered_.wait(lock, [&] { return is_over_ || next_offer() != offers_.end(); });
    if (is_over_) {
      return;
    }
    const auto offer = next_offer();
    ++offer->users;
    lock.unlock();
    offer->group->assist(*offer->slot);
    lock.lock();
    offer->is_exhausted = true;
    --offer->users;
    if (offer->users == 0) {
      leave(offer, lock);
    }
  }
}

/// The last of the assistants in a call. No other one accepts the exhausted offer; it stays in the list until
/// the slot is released, so that forget() waits for that.
void Assistants::leave(Offers::iterator offer, std::unique_lock<std::mutex>& lock) {
  ++offer->users;
  lock.unlock();
  offer->group->release(*offer->slot);
  lock.lock();
  offers_.erase(offer);
  left_.notify_all();
}

}  // namespace commlens
