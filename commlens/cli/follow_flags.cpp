#include "commlens/cli/follow_flags.hpp"

#include <chrono>
#include <utility>

#include "commlens/cli/duration_flag.hpp"

namespace commlens {

void declare_following(CLI::App& verb, FollowFlags& flags, const std::string& more) {
  verb.add_option("--interval", flags.interval, "From one look to the next: 100ms to 1m")
      ->type_name("DURATION")
      ->capture_default_str();
  verb.add_flag("--until-end", flags.until_end, "Stop when the job has ended");
  verb.add_option(
          "--hang-after", flags.hang_after,
          "Take as hung what does not move for so long (default: 30 s or 10 times the longest pause so "
          "far, at most 300 s" +
              more + ")")
      ->type_name("DURATION");
  verb.add_option("--on-alert", flags.on_alert,
                  "Run this with sh for each alert, which is JSON on its standard input; ended after 30 s")
      ->type_name("COMMAND");
  verb.add_option(
          "--webhook", flags.webhook_file,
          "Post each alert, and that it is over, as JSON to the URL in this file, readable by you alone")
      ->type_name("FILE");
}

Result<WatchRequest> watch_request_of(const FollowFlags& flags) {
  WatchRequest request;
  request.directory = flags.directory;
  request.until_end = flags.until_end;
  request.on_alert = flags.on_alert;
  return duration_from(flags.interval, "--interval")
      .and_then([&](std::chrono::milliseconds interval) -> Result<WatchRequest> {
        constexpr std::chrono::milliseconds shortest(100);
        constexpr std::chrono::minutes longest(1);
        if (interval < shortest || interval > longest) {
          return failure("--interval must be from 100ms to 1m");
        }
        request.interval = interval;
        if (flags.hang_after.empty()) {
          return std::move(request);
        }
        return duration_from(flags.hang_after, "--hang-after").map([&](std::chrono::milliseconds limit) {
          request.hang_after = limit;
          return std::move(request);
        });
      });
}

Result<std::shared_ptr<AlertPosts>> alert_posts_of(const FollowFlags& flags, const Events& warnings) {
  if (flags.webhook_file.empty()) {
    return std::shared_ptr<AlertPosts>();
  }
  return read_webhook_url(flags.webhook_file).and_then(&http_post_to).map([&](PostFunction post) {
    return std::make_shared<AlertPosts>(std::move(post), warnings);
  });
}

}  // namespace commlens
