#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/app/baseline_watch.hpp"
#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/app/hang.hpp"
#include "commlens/app/prediction_watch.hpp"
#include "commlens/base/result.hpp"
#include "commlens/live/job_view.hpp"

namespace commlens {

enum class WatchEventKind : std::uint8_t {
  rank_joined,
  alert,
  recovered,  // what an alert was about is over
  replaced,   // another recording is in the folder
  removed,    // the folder is gone
  ended       // the job has ended, or was stopped
};
std::string_view name_of(WatchEventKind kind);

/// Something that happened between two polls.
struct WatchEvent {
  WatchEventKind kind = WatchEventKind::rank_joined;
  std::int64_t unix_ns = 0;
  std::optional<std::size_t> rank;  // rank_joined: row of JobView::ranks
  std::optional<LiveAlert> alert;   // alert, recovered
};

struct WatchRequest {
  /// The folder of a recording, or of the states of nodes (live/spool.hpp); it may appear later unless
  /// `is_single`. Empty where there are agents.
  std::string directory;
  /// Addresses of `serve` on the job's nodes, which are followed together; with the token that they ask for.
  std::vector<std::string> agents;
  std::string agents_token;
  std::string publish;  // the folder for the state of this node; empty: none
  std::chrono::milliseconds interval{1000};
  std::optional<std::chrono::milliseconds> hang_after;  // as FollowOptions; of `is_single` 1 s
  bool is_single = false;       // one state; a job that seems stuck is looked at twice, as `hang` does
  bool ignores_pauses = false;  // that ranks have announced
  bool until_end = false;       // stop when the job has ended
  std::string on_alert;         // a shell's command; empty: none
  std::optional<ExpectedJob> expected;  // compared with it
  std::string baseline;                 // an earlier recording, whose times are compared; empty: none
  /// Asked several times a second; true: stop.
  std::function<bool()> stop_requested;
  /// After each poll: the state, and what happened since the one before.
  std::function<void(const JobView&, std::span<const WatchEvent>)> polled;
  Events events;
};

struct WatchResult {
  JobView view;            // the last one
  bool has_alert = false;  // one fired
};

/// Follows a job while it runs. Fails where the path is none that can be followed.
Result<WatchResult> watch(const WatchRequest& request);

/// The verdict on a view, as `hang` shows it.
HangResult hang_of(const JobView& view);

/// What a screen shows of a view.
struct WatchShow {
  std::optional<Rank> rank;   // this one alone
  std::string sort = "rank";  // of k_watch_sorts
  TextStyle style;
  std::size_t most_rows = 64;  // ranks, ops
};
constexpr std::string_view k_watch_sorts[] = {"rank", "state", "call", "rate", "late"};

/// Lines for people; foreign texts without control characters.
std::string watch_text(const JobView& view, const WatchShow& show);
/// The sentence of an alert that holds in a view.
std::string alert_text(const JobView& view, const LiveAlert& alert);
std::string event_text(const JobView& view, const WatchEvent& event);

/// Schema commlens.watch/1 (docs/output.md), on one line unless `is_pretty`.
std::string watch_json(const JobView& view, const WatchShow& show, bool is_pretty);
std::string event_json(const JobView& view, const WatchEvent& event);

}  // namespace commlens
