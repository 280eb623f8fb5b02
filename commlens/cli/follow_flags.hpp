#pragma once
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "commlens/app/alert_posts.hpp"
#include "commlens/app/watch.hpp"
#include "commlens/base/result.hpp"
#include "commlens/cli/layout_flags.hpp"

namespace commlens {

/// How a job is followed, by `watch` and `serve`.
struct FollowFlags {
  std::string directory;  // or a URL
  std::string agents_file;
  std::string agents_token_file;
  std::string publish;
  std::string interval = "1s";
  std::string hang_after;
  std::string on_alert;
  std::string webhook_file;
  bool until_end = false;
  std::string predict;
  std::string baseline;
  std::string framework;
  LayoutFlags layout;
};

/// Where the job is: DIR, --agents, --publish. `more`: what holds for DIR of this verb besides.
void declare_place(CLI::App& verb, FollowFlags& flags, const std::string& more);

/// Those of an URL or of --agents alone; `place` is the name of what they are instead of.
void declare_agents(CLI::App& verb, std::string& agents_file, std::string& token_file,
                    const std::string& place);

/// `more`: what holds for --hang-after of this verb besides.
void declare_following(CLI::App& verb, FollowFlags& flags, const std::string& more = "");

/// Fails for durations that are none, or out of range, for a layout without a configuration, and where it is
/// not said what to follow.
Result<WatchRequest> watch_request_of(const FollowFlags& flags);

/// What posts alerts to --webhook; nullptr without it. Fails as read_webhook_url() and http_post_to().
Result<std::shared_ptr<AlertPosts>> alert_posts_of(const FollowFlags& flags, const Events& warnings);

}  // namespace commlens
