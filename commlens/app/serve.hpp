#pragma once
#include <functional>
#include <string>

#include "commlens/app/watch.hpp"
#include "commlens/live/http/http_server.hpp"
#include "commlens/live/live_metrics.hpp"

namespace commlens {

struct ServeRequest {
  WatchRequest watch;  // `is_single` is not for it
  HttpSettings listen;
  MetricsLevel metrics = MetricsLevel::full;
  /// After the first look, when clients are answered, with the address: "http://127.0.0.1:9464/".
  std::function<void(const std::string& address)> started;
};

/// Follows a job as watch() does, and serves what it finds (live_site.hpp), until it is told to stop. Fails
/// as watch() and start_http_server(), and for an address that other machines reach without a token.
Result<WatchResult> serve(const ServeRequest& request);

}  // namespace commlens
