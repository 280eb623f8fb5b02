#include "commlens/live/job_alerts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/sums.hpp"
#include "commlens/base/units.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

bool is_there(const JobView& view) {
  return view.state == LiveState::running || view.state == LiveState::unknown;
}
bool may_move(const JobView& view) { return is_there(view) && !view.is_hung(); }

double percent(double share) { return 100 * share; }

/// The middle of the others' numbers, of an even count the lower middle. `sorted` has the own one, too, and
/// is of several.
double median_of_others(const std::vector<double>& sorted, double own) {
  const std::size_t middle = (sorted.size() - 2) / 2;
  const auto place = std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin();
  return sorted[middle + (static_cast<std::size_t>(place) <= middle ? 1 : 0)];
}

std::string with_host(const LiveRank& rank) {
  return fmt::format("rank {}{}", rank.rank.value,
                     rank.process ? fmt::format(" (host {})", rank.process->host) : "");
}

/// The first of some ranks, and how many more there are.
std::string ranks_text(const JobView& view, const std::set<Rank>& ranks) {
  constexpr std::size_t most = 3;
  std::vector<std::string> words;
  for (const LiveRank& rank : view.ranks) {
    if (words.size() < most && ranks.contains(rank.rank)) {
      words.push_back(with_host(rank));
    }
  }
  const std::size_t more = ranks.size() - std::min(ranks.size(), most);
  return fmt::format("{}{}", fmt::join(words, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string iterations_text(Iteration first, Iteration last) {
  return first >= last ? fmt::format("in iteration {}", last)
                       : fmt::format("in iterations {} to {}", first, last);
}

std::string row_name(const LiveOp& op) {
  const std::string name =
      op.kind == CommKind::other && !op.name.empty() ? op.name : std::string(name_of(op.kind));
  return op.axis == Axis::unknown ? name : fmt::format("{} along {}", name, op.axis.name());
}

// Sums over ranks and years do not fit into nanoseconds.
double in_seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double seconds_of_ranks(const JobView& view) {
  double all = 0;
  for (const LiveRank& rank : view.ranks) {
    all += in_seconds(rank.in_calls) + in_seconds(rank.between_calls);
  }
  return all;
}

std::string in_words(double of_seconds) {
  return to_text(nanoseconds(std::llround(std::clamp(of_seconds, 0.0, 1e9) * 1e9)));
}

}  // namespace

void AlertOfKind::set(std::string text, std::vector<Rank> culprits, PollTime time) {
  if (!current_) {
    current_ =
        LiveAlert{.id = fmt::format("{}-{}", kind_, ++fired_), .kind = kind_, .text = {}, .culprits = {}};
    current_->since_unix_ns = time.unix_ns;
  }
  current_->text = std::move(text);
  current_->culprits = std::move(culprits);
}

void AlertOfKind::add_to(JobView& view) const {
  if (current_ && is_there(view)) {
    view.alerts.push_back(*current_);
  }
  view.alerts_fired += fired_;
}

void StragglerWatch::forget() {
  began_.reset();
  marks_.clear();
  slow_.clear();
  alert_.end();
}

void StragglerWatch::begin(const JobView& view, PollTime time) {
  began_ = time.steady;
  marks_.clear();
  for (const LiveRank& rank : view.ranks) {
    marks_[rank.rank] = {.in_calls = rank.in_calls, .between_calls = rank.between_calls};
  }
}

void StragglerWatch::look(const JobView& view, PollTime time) {
  const bool is_marked = view.steps.iteration >= 0;
  const bool has_begun =
      is_marked ? view.steps.completed >= k_least_iterations
                : std::any_of(view.ranks.begin(), view.ranks.end(),
                              [](const LiveRank& rank) { return rank.sums.calls >= k_least_calls; });
  if (!may_move(view) || !has_begun) {
    began_.reset();
    return;
  }
  if (!began_ || marks_.size() != view.ranks.size()) {
    begin(view, time);
  }
  for (const LiveRank& rank : view.ranks) {
    Mark& mark = marks_[rank.rank];
    const double score = rank.late_score.value_or(0);
    mark.is_slow = mark.is_slow && score >= k_score;
    mark.lowest_score = std::min(mark.lowest_score, score);
  }
  if (time.steady - *began_ >= k_window && close(view)) {
    tell(view, time);
    begin(view, time);
  }
}

bool StragglerWatch::close(const JobView& view) {
  std::map<Rank, double> shares;  // of the window in calls
  std::vector<double> sorted;
  for (const LiveRank& rank : view.ranks) {
    const Mark& mark = marks_[rank.rank];
    const double in_calls = in_seconds(rank.in_calls - mark.in_calls);
    const double all = in_calls + in_seconds(rank.between_calls - mark.between_calls);
    if (all >= in_seconds(k_window) / 2) {
      shares[rank.rank] = in_calls / all;
      sorted.push_back(in_calls / all);
    }
  }
  if (2 * sorted.size() <= view.ranks.size()) {  // calls that last have not told their time yet
    return false;
  }
  std::sort(sorted.begin(), sorted.end());
  const std::map<Rank, Slow> before = std::exchange(slow_, {});
  for (const auto& [rank, share] : shares) {
    const Mark& mark = marks_[rank];
    if (sorted.size() < 2 || !mark.is_slow) {
      continue;
    }
    const auto known = before.find(rank);
    const std::int64_t windows = known == before.end() ? 0 : known->second.windows;
    const double cost = median_of_others(sorted, share) - share;
    if (cost >= (windows >= k_enough ? k_cost / 2 : k_cost)) {
      slow_[rank] = {.windows = windows + 1, .score = mark.lowest_score, .cost = cost};
    }
  }
  return true;
}

void StragglerWatch::tell(const JobView& view, PollTime time) {
  std::vector<Rank> culprits;
  std::vector<std::string> words;
  for (const LiveRank& rank : view.ranks) {
    const auto its = slow_.find(rank.rank);
    if (its == slow_.end() || its->second.windows < k_enough) {
      continue;
    }
    culprits.push_back(rank.rank);
    words.push_back(
        fmt::format("{} in at least {:.0f} % of its latest blocks of calls, which costs the others {:.0f} % "
                    "of their time",
                    with_host(rank), percent(its->second.score), percent(its->second.cost)));
  }
  constexpr std::size_t most = 3;
  const std::size_t more = words.size() > most ? words.size() - most : 0;
  words.resize(words.size() - more);
  if (culprits.empty()) {
    alert_.end();
  } else {
    alert_.set(fmt::format("slow by itself: {}{}", fmt::join(words, "; "),
                           more == 0 ? "" : fmt::format("; and {} more", more)),
               std::move(culprits), time);
  }
}

void ColdWatch::forget() {
  first_look_.reset();
  began_.reset();
  is_marked_ = false;
  in_a_row_ = 0;
  alert_.end();
}

void ColdWatch::begin(const JobView& view, PollTime time) {
  began_ = time.steady;
  completed_ = view.steps.completed;
  iteration_ = view.steps.iteration;
  all_ranks_ = seconds_of_ranks(view);
  first_.clear();
  for (const LiveOp& op : view.ops) {
    if (op.first_calls > 0) {
      first_[{op.kind, op.name, op.axis, op.group_size}] = {op.first_calls, op.first_time};
    }
  }
}

void ColdWatch::look(const JobView& view, PollTime time) {
  if (!may_move(view) || view.totals.calls == 0) {
    return;
  }
  if (const bool is_marked = view.steps.iteration >= 0; is_marked != is_marked_) {
    forget();
    is_marked_ = is_marked;
  }
  first_look_ = first_look_.value_or(time.steady);
  if (!began_) {
    if (is_marked_ ? view.steps.completed >= 1 : time.steady - *first_look_ >= k_start) {
      begin(view, time);
    }
    return;
  }
  if (is_marked_ ? view.steps.completed > completed_ : time.steady - *began_ >= k_period) {
    close(view, time);
    begin(view, time);
  }
}

ColdWatch::Excess ColdWatch::excess(const JobView& view) const {
  Excess all;
  double largest = 0;
  for (const LiveOp& op : view.ops) {
    const auto known = first_.find({op.kind, op.name, op.axis, op.group_size});
    const First before = known == first_.end() ? First() : known->second;
    const std::int64_t calls = op.first_calls - before.calls;
    const std::int64_t later_calls = op.sums.calls - op.first_calls;
    if (calls <= 0 || later_calls <= 0) {  // without later calls nothing says how long they would take
      continue;
    }
    const double mean = in_seconds(op.first_time - before.time) / static_cast<double>(calls);
    const double later =
        (in_seconds(op.sums.time) - in_seconds(op.first_time)) / static_cast<double>(later_calls);
    if (mean <= 0 || mean < k_slower * later) {
      continue;
    }
    const double excess = static_cast<double>(calls) * (mean - later);
    all.calls = saturating_sum(all.calls, calls);
    all.seconds += excess;
    if (excess > largest) {
      largest = excess;
      all.largest = fmt::format("{} ({} each, later ones {})", row_name(op), in_words(mean), in_words(later));
    }
  }
  return all;
}

void ColdWatch::close(const JobView& view, PollTime time) {
  const Excess cold = excess(view);
  const double all = seconds_of_ranks(view) - all_ranks_;
  const double share = all > 0 ? cold.seconds / all : 0;
  const bool counts = share >= k_share;
  in_a_row_ = counts ? std::max<std::int64_t>(in_a_row_, 0) + 1 : std::min<std::int64_t>(in_a_row_, 0) - 1;
  if (counts && (alert_.current() || in_a_row_ >= k_enough)) {
    alert_.set(
        fmt::format("communicators are made again and again: {} first {} on new ones {} took {:.0f} % of "
                    "the time, most in {}",
                    cold.calls, cold.calls == 1 ? "call" : "calls",
                    is_marked_ ? iterations_text(iteration_, view.steps.iteration - 1)
                               : fmt::format("in {}", to_text(time.steady - *began_)),
                    percent(share), cold.largest),
        {}, time);
  } else if (in_a_row_ <= -k_enough) {
    alert_.end();
  }
}

void LossWatch::forget() {
  before_.clear();
  ranks_.clear();
  grew_.reset();
  alert_.end();
}

void LossWatch::look(const JobView& view, PollTime time) {
  if (!may_move(view)) {
    return;
  }
  bool has_grown = false;
  std::map<Rank, std::int64_t> now;
  for (const LiveRank& rank : view.ranks) {
    now[rank.rank] = rank.lost_records;
    const auto known = before_.find(rank.rank);
    if (known != before_.end() && rank.lost_records > known->second) {
      has_grown = true;
      ranks_.insert(rank.rank);
    }
  }
  before_ = std::move(now);
  if (has_grown) {
    grew_ = time.steady;
    std::vector<std::string> words;
    for (const auto& [reason, calls] : view.lost) {
      words.push_back(fmt::format("{} × {}", calls, reason));
    }
    alert_.set(fmt::format("calls of {} are lost, so far {}: hangs of these ranks are not found any more",
                           ranks_text(view, ranks_), fmt::join(words, ", ")),
               {ranks_.begin(), ranks_.end()}, time);
  } else if (grew_ && time.steady - *grew_ >= k_over) {
    grew_.reset();
    ranks_.clear();
    alert_.end();
  }
}

void JobAlerts::look(JobView& view, PollTime time) {
  if (std::exchange(generation_, view.generation) != view.generation) {
    straggler_.forget();
    cold_.forget();
    loss_.forget();
  }
  straggler_.look(view, time);
  cold_.look(view, time);
  loss_.look(view, time);
  straggler_.alert().add_to(view);
  cold_.alert().add_to(view);
  loss_.alert().add_to(view);
}

}  // namespace commlens
