#include "commlens/app/live_site.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/live_page.hpp"
#include "commlens/app/version.hpp"
#include "commlens/live/http/http_policy.hpp"
#include "commlens/live/node_state.hpp"
#include "commlens/trace/rank_process.hpp"

namespace commlens {
namespace {

using nlohmann::ordered_json;

SharedText shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

constexpr const char* k_json = "application/json";
constexpr std::size_t k_latest_events = 100;
constexpr std::pair<const char*, const char*> k_parts[] = {{"/api/v1/ranks", "rank_rows"},
                                                           {"/api/v1/ops", "rows"},
                                                           {"/api/v1/alerts", "alerts"},
                                                           {"/api/v1/hang", "hang"}};
constexpr const char* k_plain = "text/plain; charset=utf-8";

HttpReply reply_of(const char* type, SharedText body) {
  HttpReply reply;
  reply.type = type;
  reply.body = std::move(body);
  return reply;
}

/// An event of a stream; JSON on one line has no line break that could end it early.
std::string event_of(std::string_view name, std::int64_t number, std::string_view json) {
  return fmt::format("event: {}\nid: {}\ndata: {}\n\n", name, number, json);
}

HttpReply metrics_reply(const std::vector<MetricFamily>& metrics, MetricsFormat format) {
  return reply_of(metrics_type_of(format).c_str(), shared(metrics_text(metrics, format)));
}

HttpReply page() {
  LivePage made = live_page();
  HttpReply reply = reply_of("text/html; charset=utf-8", shared(std::move(made.html)));
  reply.security_policy = std::move(made.security_policy);
  return reply;
}

}  // namespace

SharedText LiveSite::show(const JobView& view, std::span<const WatchEvent> events) {
  std::string told;
  for (const WatchEvent& event : events) {
    latest_.push_back(event_of(name_of(event.kind), ++number_, event_json(view, event)));
    told += latest_.back();
  }
  while (latest_.size() > k_latest_events) {
    latest_.pop_front();
  }
  const std::string state = watch_json(view, {}, true);
  const std::string state_event = event_of("state", ++number_, watch_json(view, {}, false));
  const std::vector<MetricFamily> metrics = live_metrics(view, level_, k_version);
  Shown now;
  const ordered_json json = ordered_json::parse(state);
  for (const auto& [path, part] : k_parts) {
    now.pages[path] = reply_of(k_json, shared(json_result(json.at(part))));
  }
  now.pages["/api/v1/state"] = reply_of(k_json, shared(state));
  now.pages["/metrics"] = metrics_reply(metrics, MetricsFormat::prometheus);
  now.openmetrics = metrics_reply(metrics, MetricsFormat::openmetrics);
  now.pages["/events"] = reply_of(
      "text/event-stream", shared(fmt::format("{}{}", fmt::join(latest_, std::string_view()), state_event)));
  now.pages["/events"].is_stream = true;
  now.view = std::make_shared<const JobView>(view);
  now.at = std::chrono::steady_clock::now();
  told += state_event;
  const std::scoped_lock lock(mutex_);
  shown_ = std::move(now);
  return shared(std::move(told));
}

LiveSite::Shown LiveSite::shown() const {
  const std::scoped_lock lock(mutex_);
  return shown_;
}

HttpReply LiveSite::health(const Shown& now) const {
  const auto patience = std::max<std::chrono::milliseconds>(std::chrono::seconds(10), 10 * interval_);
  const bool is_late = std::chrono::steady_clock::now() - now.at > patience;
  return is_late ? refusal(503, "the last look at the job is long ago\n") : reply_of(k_plain, shared("ok\n"));
}

HttpReply LiveSite::answer(const HttpRequest& request) {
  if (request.path == "/") {
    return page();
  }
  const Shown now = shown();
  if (now.pages.empty()) {
    HttpReply waiting = refusal(503, "nothing was read yet; ask again in a second\n");
    if (request.path == "/events") {
      waiting = reply_of("text/event-stream", shared(": nothing was read yet\n\n"));
      waiting.is_stream = true;
    }
    return waiting;
  }
  if (request.path == "/healthz") {
    return health(now);
  }
  if (request.path == "/api/v1/node") {
    return reply_of(k_json, shared(node_state_text(node_state_of(*now.view, own_host(), interval_))));
  }
  if (request.path == "/metrics" && metrics_format_of(request.accept) == MetricsFormat::openmetrics) {
    return now.openmetrics;
  }
  const auto found = now.pages.find(request.path);
  return found != now.pages.end()
             ? found->second
             : refusal(404,
                       "no such page: /, /events, /metrics, /healthz, /api/v1/state, ranks, "
                       "ops, alerts, hang, node\n");
}

}  // namespace commlens
