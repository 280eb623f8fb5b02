#include "commlens/app/live_site.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/live_page.hpp"
#include "commlens/app/version.hpp"

namespace commlens {
namespace {

using nlohmann::ordered_json;

SharedText shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

constexpr const char* k_json = "application/json";
constexpr const char* k_plain = "text/plain; charset=utf-8";

HttpReply reply_of(const char* type, SharedText body) {
  HttpReply reply;
  reply.type = type;
  reply.body = std::move(body);
  return reply;
}

HttpReply refusal(int status, const char* text) {
  HttpReply reply = reply_of(k_plain, shared(text));
  reply.status = status;
  return reply;
}

/// An event of a stream; JSON on one line has no line break that could end it early.
std::string event_of(std::string_view name, std::int64_t number, std::string_view json) {
  return fmt::format("event: {}\nid: {}\ndata: {}\n\n", name, number, json);
}

/// A part of the state.
HttpReply part_of(const SharedText& state, const char* part) {
  return reply_of(k_json, shared(json_result(ordered_json::parse(*state).at(part))));
}

HttpReply page() {
  LivePage made = live_page();
  HttpReply reply = reply_of("text/html; charset=utf-8", shared(std::move(made.html)));
  reply.security_policy = std::move(made.security_policy);
  return reply;
}

}  // namespace

SharedText LiveSite::show(const JobView& view, std::span<const WatchEvent> events) {
  const std::vector<MetricFamily> metrics = live_metrics(view, level_, k_version);
  std::string told;
  for (const WatchEvent& event : events) {
    told += event_of(name_of(event.kind), ++number_, event_json(view, event));
  }
  Shown now;
  now.state = shared(watch_json(view, {}, true));
  now.event = shared(event_of("state", ++number_, watch_json(view, {}, false)));
  now.prometheus = shared(metrics_text(metrics, MetricsFormat::prometheus));
  now.openmetrics = shared(metrics_text(metrics, MetricsFormat::openmetrics));
  now.at = std::chrono::steady_clock::now();
  told += *now.event;
  const std::scoped_lock lock(mutex_);
  shown_ = std::move(now);
  return shared(std::move(told));
}

LiveSite::Shown LiveSite::shown() const {
  const std::scoped_lock lock(mutex_);
  return shown_;
}

HttpReply LiveSite::health(const Shown& now) const {
  constexpr int late_polls = 10;
  const bool is_late = std::chrono::steady_clock::now() - now.at > late_polls * interval_;
  return is_late ? refusal(503, "the last look at the job is long ago\n") : reply_of(k_plain, shared("ok\n"));
}

HttpReply LiveSite::answer(const HttpRequest& request) {
  const Shown now = shown();
  if (request.path == "/") {
    return page();
  }
  if (request.path == "/events") {
    HttpReply reply = reply_of("text/event-stream",
                               now.event == nullptr ? shared(": nothing was read yet\n\n") : now.event);
    reply.is_stream = true;
    return reply;
  }
  if (now.state == nullptr) {
    return refusal(503, "nothing was read yet; ask again in a second\n");
  }
  if (request.path == "/healthz") {
    return health(now);
  }
  if (request.path == "/metrics") {
    const MetricsFormat format = metrics_format_of(request.accept);
    return reply_of(metrics_type_of(format).c_str(),
                    format == MetricsFormat::openmetrics ? now.openmetrics : now.prometheus);
  }
  if (request.path == "/api/v1/state") {
    return reply_of(k_json, now.state);
  }
  constexpr std::pair<const char*, const char*> parts[] = {{"/api/v1/ranks", "rank_rows"},
                                                           {"/api/v1/ops", "rows"},
                                                           {"/api/v1/alerts", "alerts"},
                                                           {"/api/v1/hang", "hang"}};
  for (const auto& [path, part] : parts) {
    if (request.path == path) {
      return part_of(now.state, part);
    }
  }
  return refusal(404,
                 "no such page: /, /events, /metrics, /healthz, /api/v1/state, ranks, ops, alerts, hang\n");
}

}  // namespace commlens
