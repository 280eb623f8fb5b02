#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/watch.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/follow_flags.hpp"
#include "commlens/cli/stop_signals.hpp"
#include "commlens/cli/terminal_screen.hpp"

namespace commlens {
namespace {

constexpr const char* k_watch_examples = R"(Examples:
  commlens watch trace/
  commlens watch trace/ --hang-after 2m --on-alert 'mail -s hang me@example.org'
  commlens watch trace/ --until-end > events.log
  commlens watch trace/ --once --json
  commlens watch /dev/shm/run1 --publish $SCRATCH/states      on each node
  commlens watch $SCRATCH/states                              all nodes together
Exit code 1: an alert fired; 0: none did.)";

struct WatchFlags {
  FollowFlags following;
  bool is_single = false;
  bool is_json = false;
  std::optional<std::int64_t> rank;
  std::string sort = "rank";
};

/// What follows a job: a screen that is drawn again, or lines.
class Follower {
 public:
  Follower(Console& console, const WatchFlags& flags, WatchShow show)
      : console_(console), flags_(flags), show_(std::move(show)), screen_(console, !flags.is_single) {}

  void show(const JobView& view, std::span<const WatchEvent> events) {
    std::string text = flags_.is_json || screen_.is_used() ? "" : news_of(view);
    for (const WatchEvent& event : events) {
      text += flags_.is_json       ? event_json(view, event) + "\n"
              : !screen_.is_used() ? event_text(view, event)
                                   : "";
    }
    if (flags_.is_json) {
      text += watch_json(view, show_, false) + "\n";
    }
    if (screen_.is_used() && !flags_.is_json) {
      show_.style = screen_.style();
      show_.most_rows = screen_.rows();
      screen_.draw(watch_text(view, show_));
    } else if (!text.empty()) {
      write_out(console_, text);
    }
  }

 private:
  /// What lines say of a folder that cannot be followed yet.
  std::string news_of(const JobView& view) {
    std::string text;
    if (is_first_ && view.generation == 0) {
      const FollowFlags& place = flags_.following;
      text = fmt::format("waits for a recording in {}\n",
                         shown_foreign(place.directory.empty() ? place.agents_file : place.directory));
    }
    if (!view.error.empty() && view.error != error_) {
      text += fmt::format("cannot be read now: {}\n", printable(view.error));
    }
    is_first_ = false;
    error_ = view.error;
    return text;
  }

  bool is_first_ = true;
  std::string error_;
  Console& console_;
  const WatchFlags& flags_;
  WatchShow show_;
  TerminalScreen screen_;
};

Result<ExitCode> run_watch(Console& console, const WatchFlags& flags) {
  const StopSignals signals(false);
  WatchShow show{.rank = rank_of(flags.rank), .sort = flags.sort, .style = console.style};
  std::shared_ptr<AlertPosts> posts;
  return alert_posts_of(flags.following, events_of(console))
      .and_then([&](std::shared_ptr<AlertPosts> made) {
        posts = std::move(made);
        return watch_request_of(flags.following);
      })
      .and_then([&](WatchRequest request) -> Result<WatchResult> {
        Follower follower(console, flags, show);
        request.is_single = flags.is_single;
        request.stop_requested = &StopSignals::came;
        request.events = events_of(console);
        request.polled = [&](const JobView& view, std::span<const WatchEvent> events) {
          follower.show(view, events);
          if (posts) {
            posts->tell(view, events);
          }
        };
        return watch(request);
      })
      .map([&](const WatchResult& result) {
        if (flags.is_single) {
          write_out(console,
                    flags.is_json ? watch_json(result.view, show, true) : watch_text(result.view, show));
        }
        if (posts) {
          if (flags.is_single) {
            posts->tell_alerts(result.view);
          }
          posts->settle(&StopSignals::came);
        }
        return result.has_alert ? ExitCode::differs : ExitCode::done;
      });
}

}  // namespace

Action declare_watch(CLI::App& verb) {
  const auto flags = std::make_shared<WatchFlags>();
  verb.footer(k_watch_examples);
  declare_place(verb, flags->following, "; unless --once, it may be made later");
  verb.add_flag("--once", flags->is_single, "Show the state once and stop");
  verb.add_flag("--json", flags->is_json, "JSON; of a job that is followed, a line for each event and poll");
  declare_following(verb, flags->following, "; with --once 1 s");
  declare_rank(verb, flags->rank, " in the table of ranks");
  verb.add_option("--sort", flags->sort,
                  "Order of ranks: rank, state, call (longest in one first), rate, late")
      ->check(CLI::IsMember({"rank", "state", "call", "rate", "late"}))
      ->type_name("KEY")
      ->capture_default_str();
  return [flags](Console& console) { return run_watch(console, *flags); };
}

}  // namespace commlens
