#include "commlens/app/watch.hpp"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "commlens/app/alert_command.hpp"
#include "commlens/live/folder_follower.hpp"

namespace commlens {
namespace {

using std::chrono::milliseconds;

bool is_over(LiveState state) {
  return state == LiveState::ended || state == LiveState::stopped || state == LiveState::removed;
}

/// Tells what happened between two views.
class EventWatch {
 public:
  std::vector<WatchEvent> events_of(const JobView& view, std::int64_t unix_ns) {
    std::vector<WatchEvent> events;
    const auto add = [&](WatchEventKind kind) -> WatchEvent& {
      WatchEvent& event = events.emplace_back();
      event.kind = kind;
      event.unix_ns = unix_ns;
      return event;
    };
    if (generation_ > 0 && view.generation != generation_) {
      add(WatchEventKind::replaced);
      joined_.clear();
      state_ = LiveState::absent;
    }
    generation_ = view.generation;
    for (std::size_t row = 0; row < view.ranks.size(); ++row) {
      if (view.ranks[row].process && joined_.insert(view.ranks[row].rank).second) {
        add(WatchEventKind::rank_joined).rank = row;
      }
    }
    if (alert_ && (view.alerts.empty() || view.alerts.front().id != alert_->id)) {
      if (!is_over(view.state)) {  // else it was ended, and not well again
        add(WatchEventKind::recovered).alert = alert_;
      }
      alert_.reset();
    }
    if (!view.alerts.empty()) {
      if (!alert_ && view.alerts.front().id != told_) {
        add(WatchEventKind::alert).alert = view.alerts.front();
      }
      alert_ = view.alerts.front();
      told_ = alert_->id;
    }
    if (is_over(view.state) && !is_over(state_) && view.generation > 0) {
      add(view.state == LiveState::removed ? WatchEventKind::removed : WatchEventKind::ended);
    }
    state_ = view.state;
    return events;
  }

 private:
  std::int64_t generation_ = 0;
  std::set<Rank> joined_;
  std::optional<LiveAlert> alert_;
  std::string told_;  // the id of the latest alert
  LiveState state_ = LiveState::absent;
};

/// Sleeps in small pieces; false when it is to stop.
bool rest(const WatchRequest& request, milliseconds time, const std::function<void()>& meanwhile) {
  constexpr milliseconds piece(50);
  const auto until = std::chrono::steady_clock::now() + time;
  while (!(request.stop_requested && request.stop_requested())) {
    meanwhile();
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) {
      return true;
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, piece));
  }
  return false;
}

constexpr milliseconds k_second_look(1000);

FollowOptions options_of(const WatchRequest& request) {
  FollowOptions options;
  options.hang_after = request.hang_after;
  options.is_single = request.is_single;
  if (request.is_single && !request.hang_after) {
    options.hang_after = k_second_look;
  }
  return options;
}

/// One watch.
class Watching {
 public:
  explicit Watching(const WatchRequest& request)
      : request_(request), follower_(request.directory, options_of(request)), command_(request.on_alert) {}

  Result<void> poll() {
    const PollTime time = PollTime::now();
    return follower_.poll(time).map([&] {
      const JobView& view = follower_.view();
      const std::vector<WatchEvent> events = events_.events_of(view, time.unix_ns);
      for (const WatchEvent& event : events) {
        if (event.kind == WatchEventKind::alert) {
          has_alert_ = true;
          run_command(event);
        }
      }
      if (request_.polled && !request_.is_single) {
        request_.polled(view, events);
      }
    });
  }

  /// False when it is to stop.
  bool rest_for(milliseconds time) {
    return rest(request_, time, [&] { command_.look(); });
  }
  /// Lets the commands of alerts end.
  void settle() {
    while (command_.is_busy() && rest_for(milliseconds(20))) {
      command_.look();
    }
  }
  const JobView& view() const { return follower_.view(); }
  WatchResult result() const { return {.view = follower_.view(), .has_alert = has_alert_}; }

 private:
  void run_command(const WatchEvent& event) {
    if (request_.on_alert.empty()) {
      return;
    }
    const std::string cause = command_.start(event_json(follower_.view(), event) + "\n");
    if (!cause.empty()) {
      request_.events.warn(fmt::format("the command for alerts was not started: {}", cause));
    }
  }

  const WatchRequest& request_;
  FolderFollower follower_;
  AlertCommand command_;
  EventWatch events_;
  bool has_alert_ = false;
};

/// One state; a job that runs and seems stuck is looked at once more.
Result<WatchResult> watch_once(const WatchRequest& request) {
  Watching watching(request);
  if (const Result<void> polled = watching.poll(); !polled) {
    return tl::unexpected(polled.error());
  }
  const JobView& view = watching.view();
  if (view.generation == 0) {
    return failure(view.error.empty() ? fmt::format("{}: no commlens trace there", request.directory)
                                      : view.error);
  }
  const bool seems_stuck = view.hang.finding.verdict != HangVerdict::none && !view.hang.is_confirmed;
  if (seems_stuck && !is_over(view.state)) {
    static_cast<void>(watching.rest_for(request.hang_after.value_or(k_second_look)));
    if (const Result<void> polled = watching.poll(); !polled) {
      return tl::unexpected(polled.error());
    }
  }
  watching.settle();
  return watching.result();
}

/// Two files of each rank stay open: as many as this process may have.
void allow_open_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
  }
}

}  // namespace

std::string_view name_of(WatchEventKind kind) {
  switch (kind) {
    case WatchEventKind::rank_joined:
      return "rank_joined";
    case WatchEventKind::alert:
      return "alert";
    case WatchEventKind::recovered:
      return "recovered";
    case WatchEventKind::replaced:
      return "replaced";
    case WatchEventKind::removed:
      return "removed";
    case WatchEventKind::ended:
      return "ended";
  }
  return "";
}

HangResult hang_of(const JobView& view) {
  HangResult result;
  result.name = view.name;
  result.run = view.state == LiveState::running   ? JobRun::running
               : view.state == LiveState::ended   ? JobRun::ended
               : view.state == LiveState::stopped ? JobRun::stopped
                                                  : JobRun::unknown;
  result.job = view.hang.job;
  result.graph = view.hang.graph;
  result.processes = view.hang.processes;
  if (view.hang.is_confirmed) {
    result.finding = view.hang.finding;
    result.unchanged_for = std::chrono::duration_cast<milliseconds>(view.hang.still_for);
  }
  return result;
}

Result<WatchResult> watch(const WatchRequest& request) {
  allow_open_files();
  if (request.is_single) {
    return watch_once(request);
  }
  Watching watching(request);
  bool goes_on = true;
  while (goes_on) {
    if (const Result<void> polled = watching.poll(); !polled) {
      return tl::unexpected(polled.error());
    }
    const bool has_ended =
        request.until_end && is_over(watching.view().state) && watching.view().generation > 0;
    goes_on = !has_ended && watching.rest_for(request.interval);
  }
  watching.settle();
  return watching.result();
}

}  // namespace commlens
