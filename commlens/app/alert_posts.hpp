#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "commlens/app/events.hpp"
#include "commlens/app/watch.hpp"
#include "commlens/live/http/webhook.hpp"

namespace commlens {

/// Posts each alert, and that it is over, to a webhook (event_json), without waiting for it.
class AlertPosts {
 public:
  /// `warnings`: of what did not arrive, by the thread that calls tell().
  AlertPosts(PostFunction post, Events warnings, WebhookPace pace = {});

  /// After a poll of watch().
  void tell(const JobView& view, std::span<const WatchEvent> events);
  /// The alerts of a single look.
  void tell_alerts(const JobView& view);
  /// Waits until all has arrived: for 30 s, or until `is_stopped` says so; then what is left is dropped.
  void settle(const std::function<bool()>& is_stopped);

 private:
  void warn();

  Webhook webhook_;
  Events warnings_;
  std::size_t warned_dropped_ = 0;
  std::string warned_failure_;
};

}  // namespace commlens
