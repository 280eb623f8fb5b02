#include "commlens/app/watch.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "commlens/app/alert_command.hpp"
#include "commlens/app/followed_job.hpp"
#include "commlens/live/job_alerts.hpp"

namespace commlens {
namespace {

using std::chrono::milliseconds;

bool is_gone(LiveState state) { return is_at_end(state) || state == LiveState::removed; }

bool holds(const JobView& view, const LiveAlert& alert) {
  return std::any_of(view.alerts.begin(), view.alerts.end(),
                     [&](const LiveAlert& each) { return each.id == alert.id; });
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
      alerts_.clear();
      told_.clear();
      state_ = LiveState::absent;
    }
    generation_ = view.generation;
    for (std::size_t row = 0; row < view.ranks.size(); ++row) {
      if (view.ranks[row].process && joined_.insert(view.ranks[row].rank).second) {
        add(WatchEventKind::rank_joined).rank = row;
      }
    }
    for (const LiveAlert& alert : alerts_) {
      // A job that was stopped was not well again.
      const bool is_well = view.state == LiveState::running || view.state == LiveState::unknown ||
                           view.state == LiveState::ended;
      if (is_well && !holds(view, alert)) {
        add(WatchEventKind::recovered).alert = alert;
      }
    }
    alerts_ = view.alerts;
    for (const LiveAlert& alert : alerts_) {
      if (std::exchange(told_[origin_of(alert)], alert.id) != alert.id) {
        add(WatchEventKind::alert).alert = alert;
      }
    }
    forget_old();
    if (is_gone(view.state) && !is_gone(state_) && view.generation > 0) {
      add(view.state == LiveState::removed ? WatchEventKind::removed : WatchEventKind::ended);
    }
    state_ = view.state;
    return events;
  }

 private:
  /// Many nodes may tell many alerts, in weeks.
  void forget_old() {
    constexpr std::size_t most = 4096;
    if (told_.size() > alerts_.size() + most) {
      told_.clear();
      for (const LiveAlert& alert : alerts_) {
        told_[origin_of(alert)] = alert.id;
      }
    }
  }
  static std::string origin_of(const LiveAlert& alert) { return alert.id.substr(0, alert.id.rfind('-')); }

  std::int64_t generation_ = 0;
  std::set<Rank> joined_;
  std::vector<LiveAlert> alerts_;            // that held at the last look
  std::map<std::string, std::string> told_;  // "NODE/volume" -> the id of its latest alert
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

/// What the job is compared with.
struct Comparisons {
  std::optional<PredictionWatch> prediction;
  std::optional<BaselineWatch> baseline;
};

/// One watch.
class Watching {
 public:
  Watching(const WatchRequest& request, FollowedJobSource source, Comparisons comparisons)
      : request_(request),
        source_(std::move(source)),
        comparisons_(std::move(comparisons)),
        publisher_(request),
        command_(request.on_alert, request.events) {}

  Result<void> poll() {
    const PollTime time = PollTime::now();
    return source_.poll(time).map([&] {
      view_ = source_.view();
      if (const FolderFollower* const folder = source_.folder()) {
        compare(*folder, time);
      }
      if (!request_.is_single) {  // one look, or two, are too few
        alerts_.look(view_, time);
      }
      publisher_.look(view_, time);
      const std::vector<WatchEvent> events = events_.events_of(view_, time.unix_ns);
      for (const WatchEvent& event : events) {
        if (event.kind == WatchEventKind::alert) {
          has_alert_ = true;
          run_command(event);
        }
      }
      if (request_.polled && !request_.is_single) {
        request_.polled(view_, events);
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
  const JobView& view() const { return view_; }
  WatchResult result() const { return {.view = view_, .has_alert = has_alert_}; }

 private:
  void compare(const FolderFollower& folder, PollTime time) {
    if (comparisons_.prediction) {
      comparisons_.prediction->look(view_, folder, time, request_.is_single);
    }
    if (comparisons_.baseline) {
      comparisons_.baseline->look(view_, folder, time);
    }
  }
  void run_command(const WatchEvent& event) {
    if (request_.on_alert.empty()) {
      return;
    }
    const std::string cause = command_.start(event_json(view_, event) + "\n");
    if (!cause.empty()) {
      request_.events.warn(fmt::format("the command for alerts was not started: {}", cause));
    }
  }

  const WatchRequest& request_;
  FollowedJobSource source_;
  Comparisons comparisons_;
  JobAlerts alerts_;
  NodePublisher publisher_;
  JobView view_;  // with what is compared
  AlertCommand command_;
  EventWatch events_;
  bool has_alert_ = false;
};

/// One state; a job that runs and seems stuck is looked at once more.
Result<WatchResult> watch_once(const WatchRequest& request, Watching& watching) {
  if (const Result<void> polled = watching.poll(); !polled) {
    return tl::unexpected(polled.error());
  }
  const JobView& view = watching.view();
  if (view.generation == 0) {
    const std::string& place = request.agents.empty() ? request.directory : request.agents.front();
    return failure(view.error.empty() ? fmt::format("{}: no commlens trace there", place) : view.error);
  }
  const bool seems_stuck = view.hang.finding.verdict != HangVerdict::none && !view.hang.is_confirmed;
  if (seems_stuck && !is_gone(view.state)) {
    static_cast<void>(watching.rest_for(request.hang_after.value_or(k_second_look)));
    if (const Result<void> polled = watching.poll(); !polled) {
      return tl::unexpected(polled.error());
    }
  }
  watching.settle();
  return watching.result();
}

Result<Comparisons> comparisons_of(const WatchRequest& request) {
  Comparisons comparisons;
  Result<void> opened;
  if (request.expected) {
    opened = PredictionWatch::open(*request.expected, request.events).map([&](PredictionWatch prediction) {
      comparisons.prediction = std::move(prediction);
    });
  }
  if (opened && !request.baseline.empty()) {
    opened = BaselineWatch::open(request.baseline, request.events).map([&](BaselineWatch baseline) {
      comparisons.baseline = std::move(baseline);
    });
  }
  return opened.map([&] { return std::move(comparisons); });
}

/// Until it is stopped, or the job has ended where that is asked for.
Result<WatchResult> watch_on(const WatchRequest& request, Watching& watching) {
  bool goes_on = true;
  while (goes_on) {
    if (const Result<void> polled = watching.poll(); !polled) {
      return tl::unexpected(polled.error());
    }
    const bool has_ended =
        request.until_end && is_gone(watching.view().state) && watching.view().generation > 0;
    goes_on = !has_ended && watching.rest_for(request.interval);
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
  result.pause_left = view.hang.pause_left;
  for (std::size_t row = 0, at = 0; row < result.job.ranks.size() && at < view.ranks.size(); ++row) {
    if (result.job.ranks[row].state.rank == view.ranks[at].rank && view.ranks[at++].is_silent) {
      result.silent.insert(row);
    }
  }
  if (view.hang.is_confirmed) {
    result.finding = view.hang.finding;
    result.unchanged_for = std::chrono::duration_cast<milliseconds>(view.hang.still_for);
  }
  return result;
}

Result<WatchResult> watch(const WatchRequest& request) {
  allow_open_files();
  return FollowedJobSource::open(request).and_then([&](FollowedJobSource source) {
    return comparisons_of(request).and_then([&](Comparisons comparisons) {
      Watching watching(request, std::move(source), std::move(comparisons));
      return request.is_single ? watch_once(request, watching) : watch_on(request, watching);
    });
  });
}

}  // namespace commlens
