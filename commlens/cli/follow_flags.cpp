#include "commlens/cli/follow_flags.hpp"

#include <chrono>
#include <utility>

#include "commlens/app/followed_job.hpp"
#include "commlens/cli/duration_flag.hpp"

namespace commlens {
namespace {

/// What the job is compared with, if anything.
Result<std::optional<ExpectedJob>> expected_of(const FollowFlags& flags) {
  return flags.layout.single().and_then(
      [&](const Overrides& overrides) -> Result<std::optional<ExpectedJob>> {
        if (!flags.predict.empty()) {
          return ExpectedJob{flags.predict, flags.framework, overrides};
        }
        if (!flags.framework.empty() || overrides != Overrides()) {
          return failure("--framework and the layout flags are for a configuration; name it with --predict");
        }
        return std::optional<ExpectedJob>();
      });
}

}  // namespace

void declare_agents(CLI::App& verb, std::string& agents_file, std::string& token_file,
                    const std::string& place) {
  verb.add_option(
          "--agents", agents_file,
          "Instead of " + place + ": a file with the URLs of a serve on each node of the job, one a line")
      ->type_name("FILE");
  verb.add_option("--agents-token-file", token_file,
                  "A file, readable by you alone, with the token that these ask for")
      ->type_name("FILE");
}

void declare_place(CLI::App& verb, FollowFlags& flags, const std::string& more) {
  verb.add_option(
      "DIR", flags.directory,
      "The directory of a recording, or that into which its nodes publish their states, or the URL of a "
      "serve" +
          more);
  declare_agents(verb, flags.agents_file, flags.agents_token_file, "DIR");
  verb.add_option(
          "--publish", flags.publish,
          "Write the state of this node's ranks into this directory, which all nodes see, for one who "
          "follows them together")
      ->type_name("DIR");
}

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
  verb.add_option("--predict", flags.predict,
                  "A configuration, as compare takes one: an alert where the job does not send what it says")
      ->type_name("CONFIG");
  verb.add_option("--framework", flags.framework, "Whose rules predict it")->type_name("NAME[@VERSION]");
  verb.add_option("--baseline", flags.baseline,
                  "An earlier recording of this job: an alert where calls take longer than in it")
      ->type_name("TRACE");
  flags.layout.declare(verb);
}

Result<WatchRequest> watch_request_of(const FollowFlags& flags) {
  WatchRequest request;
  return followed_at({.place = flags.directory,
                      .agents_file = flags.agents_file,
                      .token_file = flags.agents_token_file,
                      .publish = flags.publish})
      .and_then([&](WatchRequest placed) {
        request = std::move(placed);
        request.until_end = flags.until_end;
        request.on_alert = flags.on_alert;
        request.baseline = flags.baseline;
        return expected_of(flags);
      })
      .and_then([&](std::optional<ExpectedJob> expected) {
        request.expected = std::move(expected);
        return duration_from(flags.interval, "--interval");
      })
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
