#include "commlens/live/http/awaited_requests.hpp"

#include <iterator>

#include <sys/socket.h>

namespace commlens {

void AwaitedRequests::await(const void* connection, int socket) {
  const std::scoped_lock lock(mutex_);
  awaited_[connection] = {socket, std::chrono::steady_clock::now()};
}

void AwaitedRequests::settle(const void* connection) {
  const std::scoped_lock lock(mutex_);
  awaited_.erase(connection);
}

// Under the lock, so that no socket is closed, and its number given to another, meanwhile.
void AwaitedRequests::end_overdue() {
  const auto now = std::chrono::steady_clock::now();
  const std::scoped_lock lock(mutex_);
  for (auto awaited = awaited_.begin(); awaited != awaited_.end();) {
    const bool is_overdue = now - awaited->second.since >= longest_;
    if (is_overdue) {
      shutdown(awaited->second.socket, SHUT_RDWR);
    }
    awaited = is_overdue ? awaited_.erase(awaited) : std::next(awaited);
  }
}

}  // namespace commlens
