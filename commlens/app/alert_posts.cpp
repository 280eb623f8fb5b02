#include "commlens/app/alert_posts.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace commlens {

AlertPosts::AlertPosts(PostFunction post, Events warnings, WebhookPace pace)
    : webhook_(std::move(post), pace), warnings_(std::move(warnings)) {}

void AlertPosts::tell(const JobView& view, std::span<const WatchEvent> events) {
  for (const WatchEvent& event : events) {
    if (event.kind == WatchEventKind::alert || event.kind == WatchEventKind::recovered) {
      webhook_.post(event_json(view, event));
    }
  }
  warn();
}

void AlertPosts::tell_alerts(const JobView& view) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const LiveAlert& alert : view.alerts) {
    WatchEvent event;
    event.kind = WatchEventKind::alert;
    event.unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    event.alert = alert;
    webhook_.post(event_json(view, event));
  }
}

void AlertPosts::settle(const std::function<bool()>& is_stopped) {
  constexpr std::chrono::seconds longest(30);
  constexpr std::chrono::milliseconds piece(20);
  const auto until = std::chrono::steady_clock::now() + longest;
  while (webhook_.state().waiting > 0 && !(is_stopped && is_stopped()) &&
         std::chrono::steady_clock::now() < until) {
    warn();
    std::this_thread::sleep_for(piece);
  }
  warn();
  if (const std::size_t left = webhook_.state().waiting; left > 0) {
    warnings_.warn(fmt::format("messages that did not arrive at the webhook in time: {}", left));
  }
}

void AlertPosts::warn() {
  const Webhook::State state = webhook_.state();
  if (state.dropped > warned_dropped_) {
    warnings_.warn(fmt::format("messages that did not arrive at the webhook: {}{}{}", state.dropped,
                               state.last_failure.empty() ? "" : "; ", state.last_failure));
  } else if (!state.last_failure.empty() && state.last_failure != warned_failure_) {
    warnings_.warn(
        fmt::format("the webhook does not answer well: {}; it is tried again", state.last_failure));
  }
  warned_dropped_ = state.dropped;
  warned_failure_ = state.last_failure;
}

}  // namespace commlens
