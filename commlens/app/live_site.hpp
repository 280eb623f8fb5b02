#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "commlens/app/watch.hpp"
#include "commlens/live/http/http_server.hpp"
#include "commlens/live/live_metrics.hpp"

namespace commlens {

/// The pages of `serve`: `/` for people, `/events` (server-sent events: `state` after each poll, else the
/// name of the WatchEvent), `/metrics` (Prometheus, OpenMetrics), `/api/v1/state`, `/api/v1/ranks`,
/// `/api/v1/ops`,
/// `/api/v1/alerts`, `/api/v1/hang`, `/api/v1/node`, `/healthz`. One thread makes what is shown, the server's
/// thread shows it.
class LiveSite final : public HttpHandler {
 public:
  LiveSite(MetricsLevel level, std::chrono::milliseconds interval) : level_(level), interval_(interval) {}

  /// After a poll. Returns what open streams are told; later ones are told the latest events, too.
  SharedText show(const JobView& view, std::span<const WatchEvent> events);

  HttpReply answer(const HttpRequest& request) override;

 private:
  /// What was made of the last poll.
  struct Shown {
    std::map<std::string, HttpReply> pages;  // by path
    HttpReply openmetrics;                   // of /metrics, for who accepts it
    std::shared_ptr<const JobView> view;     // for /api/v1/node, which is made when it is asked for
    std::chrono::steady_clock::time_point at;
  };
  Shown shown() const;
  HttpReply health(const Shown& now) const;

  MetricsLevel level_;
  std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  Shown shown_;
  std::int64_t number_ = 0;         // of events
  std::deque<std::string> latest_;  // events but states, for streams that begin later
};

}  // namespace commlens
