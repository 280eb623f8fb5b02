#pragma once
#include <chrono>
#include <mutex>
#include <unordered_map>

namespace commlens {

/// Connections whose next request has not come whole. One that says a byte now and then is never idle, and
/// would hold its place for ever. Thread-safe.
class AwaitedRequests {
 public:
  explicit AwaitedRequests(std::chrono::nanoseconds longest) : longest_(longest) {}

  /// A request is to come over `socket` from now on.
  void await(const void* connection, int socket);
  /// It has come, or the connection ends; the socket is not touched any more.
  void settle(const void* connection);
  /// Ends both directions of the sockets that have been waited for for too long; who reads them sees their
  /// end.
  void end_overdue();

 private:
  struct Awaited {
    int socket = -1;
    std::chrono::steady_clock::time_point since;
  };
  std::chrono::nanoseconds longest_;
  std::mutex mutex_;
  std::unordered_map<const void*, Awaited> awaited_;
};

}  // namespace commlens
