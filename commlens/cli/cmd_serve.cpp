#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/serve.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/follow_flags.hpp"
#include "commlens/cli/stop_signals.hpp"

namespace commlens {
namespace {

constexpr const char* k_serve_examples = R"(Examples:
  commlens serve trace/                       then open http://127.0.0.1:9464/
  commlens serve trace/ --listen 127.0.0.1:0
  commlens serve trace/ --listen 0.0.0.0:9464 --token-file ~/.commlens-token
  commlens serve --agents nodes.txt           all nodes of a job, each with a serve of its own
  curl http://127.0.0.1:9464/metrics
Exit code 1: an alert fired; 0: none did.)";

struct ServeFlags {
  FollowFlags following;
  std::string listen = "127.0.0.1:9464";
  std::string token_file;
  std::string metrics = "full";
};

Result<ServeRequest> serve_request_of(const ServeFlags& flags) {
  return parse_listen(flags.listen)
      .and_then([&](HttpSettings listen) -> Result<HttpSettings> {
        if (flags.token_file.empty()) {
          return listen;
        }
        return read_token(flags.token_file).map([&](std::string token) {
          listen.token = std::move(token);
          return std::move(listen);
        });
      })
      .and_then([&](HttpSettings listen) {
        return watch_request_of(flags.following).map([&](WatchRequest watched) {
          ServeRequest request;
          request.watch = std::move(watched);
          request.listen = std::move(listen);
          request.metrics = flags.metrics == "lite" ? MetricsLevel::lite : MetricsLevel::full;
          return request;
        });
      });
}

Result<ExitCode> run_serve(Console& console, const ServeFlags& flags) {
  const StopSignals signals(false);
  std::shared_ptr<AlertPosts> posts;
  return alert_posts_of(flags.following, events_of(console))
      .and_then([&](std::shared_ptr<AlertPosts> made) {
        posts = std::move(made);
        return serve_request_of(flags);
      })
      .and_then([&](ServeRequest request) {
        request.watch.stop_requested = &StopSignals::came;
        request.watch.events = events_of(console);
        request.watch.polled = [&, error = std::string()](const JobView& view,
                                                          std::span<const WatchEvent> events) mutable {
          if (std::exchange(error, view.error) != view.error && !view.error.empty()) {
            write_out(console, fmt::format("cannot be read now: {}\n", printable(view.error)));
          }
          for (const WatchEvent& event : events) {
            write_out(console, event_text(view, event));
          }
          if (posts) {
            posts->tell(view, events);
          }
        };
        request.started = [&](const std::string& address) { write_out(console, address + "\n"); };
        return serve(request);
      })
      .map([&](const WatchResult& result) {
        if (posts) {
          posts->settle(&StopSignals::came);
        }
        return result.has_alert ? ExitCode::differs : ExitCode::done;
      });
}

}  // namespace

Action declare_serve(CLI::App& verb) {
  const auto flags = std::make_shared<ServeFlags>();
  verb.footer(k_serve_examples);
  declare_place(verb, flags->following, ", which may be made later");
  verb.add_option("--listen", flags->listen, "Where clients come; port 0: any free one")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  verb.add_option(
          "--token-file", flags->token_file,
          "A file, readable by you alone, with the token that clients must show; needed off this machine")
      ->type_name("FILE");
  verb.add_option("--metrics", flags->metrics, "lite: of the job; full: of each rank too, and histograms")
      ->check(CLI::IsMember({"lite", "full"}))
      ->capture_default_str();
  declare_following(verb, flags->following);
  return [flags](Console& console) { return run_serve(console, *flags); };
}

}  // namespace commlens
