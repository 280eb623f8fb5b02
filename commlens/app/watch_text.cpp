#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/hang_facts.hpp"
#include "commlens/app/watch.hpp"
#include "commlens/app/watch_tables.hpp"

namespace commlens {
namespace {

std::string state_in_words(const JobView& view) {
  switch (view.state) {
    case LiveState::absent:
      return view.generation > 0 ? "no rank has begun" : "waits for a recording";
    case LiveState::running:
      return "running";
    case LiveState::ended:
      return "ended";
    case LiveState::stopped:
      return "stopped before all ranks ended";
    case LiveState::unknown:
      return "whether it runs cannot be known here";
    case LiveState::removed:
      return "its folder was removed";
  }
  return "";
}

/// "iteration 12, 1.2 s each (the last 1.3 s)".
std::string steps_in_words(const LiveSteps& steps) {
  if (steps.iteration < 0) {
    return "";
  }
  std::string text = fmt::format(" · iteration {}", steps.iteration);
  if (steps.median && steps.last) {
    text += fmt::format(", {} each (the last one {})", to_text(*steps.median), to_text(*steps.last));
  }
  return text;
}

std::string head(const JobView& view, const TextStyle& style) {
  const std::string name = shown_foreign(view.name);
  std::string text = name;
  if (!view.job_id.empty()) {
    text += fmt::format(" · job {}", shown_foreign(view.job_id));
  }
  text += fmt::format(" · {}{}", state_in_words(view), steps_in_words(view.steps));
  if (view.generation > 0) {
    text += fmt::format(" · {} · {}, {}", how_many(std::ssize(view.ranks), "rank"),
                        how_many(view.totals.calls, "call"), to_text(view.totals.message));
  }
  if (view.hang.pause_left.count() > 0) {
    text += fmt::format(" · has announced a pause, {} left", to_text(view.hang.pause_left));
  }
  text = style.width > 0 ? cut_to(text, style.width) : text;
  if (text.starts_with(name)) {
    text = in_colour(name, Colour::bold, style) + text.substr(name.size());
  }
  return text + "\n" + (view.error.empty() ? "" : "cannot be read now: " + printable(view.error) + "\n");
}

std::string alerts_text(const JobView& view, const TextStyle& style) {
  std::string text;
  for (const LiveAlert& alert : view.alerts) {
    text += in_colour("ALERT ", Colour::red, style) + printable(alert_text(view, alert)) + "\n";
    text += alert.kind == k_alert_hang ? culprits_text(hang_of(view)) : "";
  }
  return text;
}

/// How the job and its prediction compare.
std::string prediction_text(const JobView& view) {
  if (!view.prediction) {
    return "";
  }
  const LivePrediction& prediction = *view.prediction;
  std::string text;
  if (prediction.iterations > 0) {
    text = fmt::format(
        "\ncompared with {}\n{}{}: {} as predicted, {} of another size, {} missing, {} more than predicted\n",
        printable(prediction.source), how_many(prediction.iterations, "iteration"),
        prediction.iteration < 0 ? "" : fmt::format(", the last one {}", prediction.iteration),
        how_many(prediction.exact, "call"), prediction.size, prediction.missing, prediction.extra);
  }
  if (!prediction.error.empty()) {
    text += fmt::format("\nnot compared with a prediction: {}\n", printable(prediction.error));
  }
  return text.empty() ? "\nnot compared with the prediction yet: no iteration is complete\n" : text;
}

/// How the times of the job and those of an earlier recording compare.
std::string baseline_text(const JobView& view) {
  if (!view.baseline) {
    return "";
  }
  const LiveBaseline& baseline = *view.baseline;
  if (!baseline.error.empty()) {
    return fmt::format("\ntimes not compared with {}: {}\n", printable(baseline.source),
                       printable(baseline.error));
  }
  const auto slower = std::count_if(baseline.rows.begin(), baseline.rows.end(),
                                    [](const LiveSlowdown& row) { return row.is_slower; });
  return baseline.tests == 0
             ? fmt::format("\ntimes not compared with {} yet: too few iterations\n",
                           printable(baseline.source))
             : fmt::format("\ntimes compared with {}: {} of {} slower in the last {}\n",
                           printable(baseline.source), slower, how_many(std::ssize(baseline.rows), "row"),
                           how_many(baseline.iterations, "iteration"));
}

std::string ranks_text(const JobView& view, const WatchShow& show) {
  const Table table = watched_ranks(view, show);
  if (show.rank && table.rows().empty()) {
    return fmt::format("rank {} is not in this recording, whose ranks are {} to {}\n", show.rank->value,
                       view.ranks.front().rank.value, view.ranks.back().rank.value);
  }
  if (table.rows().size() <= show.most_rows) {
    return table.text(show.style);
  }
  Table some(table.columns());
  for (std::size_t row = 0; row < show.most_rows; ++row) {
    some.add(table.rows()[row]);
  }
  return some.text(show.style) +
         fmt::format("… and {} more\n",
                     how_many(std::ssize(table.rows()) - static_cast<std::int64_t>(show.most_rows), "rank"));
}

std::string lost_text(const JobView& view) {
  std::string text;
  for (const auto& [reason, calls] : view.lost) {
    text += fmt::format("not counted: {} × {}\n", calls, printable(reason));
  }
  const auto lossy = std::count_if(view.ranks.begin(), view.ranks.end(),
                                   [](const LiveRank& rank) { return rank.lost_records > 0; });
  if (lossy > 0 && !is_at_end(view.state)) {
    text += fmt::format("hangs of {} are not found, since calls of them are lost\n", how_many(lossy, "rank"));
  }
  for (const LiveRank& rank : view.ranks) {
    if (!rank.error.empty()) {
      text += fmt::format("rank {}: {}\n", rank.rank.value, printable(rank.error));
    }
  }
  if (view.watcher.unread > 0) {
    text += fmt::format(
        "{} written and cannot be read yet\n",
        view.watcher.unread == 1 ? "1 record is" : fmt::format("{} records are", view.watcher.unread));
  }
  return text;
}

/// "2026-11-27T18:00:00Z".
std::string time_text(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text = {};
  text[std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)] = '\0';
  return text.data();
}

std::string event_words(const JobView& view, const WatchEvent& event) {
  switch (event.kind) {
    case WatchEventKind::rank_joined: {
      const LiveRank& rank = view.ranks[*event.rank];
      return fmt::format("rank {} joined: host {}, pid {}", rank.rank.value, rank.process->host,
                         rank.process->pid);
    }
    case WatchEventKind::alert:
      return fmt::format("alert {}: {}", event.alert->id, alert_text(view, *event.alert));
    case WatchEventKind::recovered:
      return fmt::format("alert {} is over", event.alert->id);
    case WatchEventKind::replaced:
      return "another recording is in the folder";
    case WatchEventKind::removed:
      return "the folder was removed";
    case WatchEventKind::ended:
      return view.state == LiveState::ended ? "the job has ended"
                                            : "the job was stopped before all ranks ended";
  }
  return "";
}

}  // namespace

std::string alert_text(const JobView& view, const LiveAlert& alert) {
  if (alert.kind != k_alert_hang) {
    return alert.text;
  }
  std::string text = headline(hang_of(view), CulpritWords::hosts);
  text.pop_back();
  if (view.hang.is_confirmed && view.hang.finding.may_compute) {
    text += ", unless one with requests alone computes";
  }
  return view.hang.still_for.count() == 0
             ? text
             : fmt::format("{}; nothing of this moved for {}", text, to_text(view.hang.still_for));
}

std::string watch_text(const JobView& view, const WatchShow& show) {
  std::string text = head(view, show.style) + alerts_text(view, show.style);
  if (!view.ranks.empty()) {
    text += "\n" + ranks_text(view, show);
  }
  if (!view.ops.empty()) {
    text += "\n" + watched_ops(view).text(show.style);
  }
  text += prediction_text(view) + baseline_text(view);
  const std::string lost = lost_text(view);
  return lost.empty() ? text : text + "\n" + lost;
}

std::string event_text(const JobView& view, const WatchEvent& event) {
  return fmt::format("{} {}: {}\n", time_text(event.unix_ns), shown_foreign(view.name),
                     printable(event_words(view, event)));
}

}  // namespace commlens
