#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/launch_bursts.hpp"
#include "commlens/app/tune.hpp"
#include "commlens/app/tune_launches.hpp"
#include "commlens/base/units.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

constexpr double k_percent = 100;

/// The algorithm of a rule, else why there is none.
std::string rule_text(const TuneResult& result, const TunedMessage& message) {
  if (message.decision.variant == 0) {
    return "";
  }
  if (!message.no_rule.empty()) {
    return message.no_rule;
  }
  return result.tuned.is_confirmed() ? "" : "the step's gain is not confirmed";
}

/// Fractional where the iterations of a trace differ.
Cell calls_cell(double calls) {
  const auto whole = static_cast<std::int64_t>(calls);
  return static_cast<double>(whole) == calls ? Cell(whole) : Cell(calls);
}

Table tune_table(const TuneResult& result) {
  Table table(
      columns({"op", "dtype", "group_size", "message_bytes", "calls", "default_s",
               Column{.key = "algorithm_count", .drop_first = 2}, "algorithm", "time_s", "gain_share",
               Column{.key = "gain_low_share", .drop_first = 3},
               Column{.key = "gain_high_share", .drop_first = 3}, Column{.key = "reason", .drop_first = 1}}));
  for (const TunedMessage& message : result.tuned.messages) {
    const tune::Decision& decision = message.decision;
    const bool is_chosen = decision.variant > 0;
    const auto of_choice = [&](double value) { return is_chosen ? Cell(value) : Cell(); };
    table.add({bench::name_of(message.timed.op), name_of(message.timed.dtype), message.timed.ranks,
               message.timed.bytes(), calls_cell(message.calls_of_class.at(result.tuned.step_class)),
               decision.default_s, std::ssize(message.variants) - 1,
               is_chosen ? Cell(message.variants.at(decision.variant).algorithm) : Cell(),
               of_choice(decision.chosen_s), of_choice(decision.gain.value), of_choice(decision.gain.low),
               of_choice(decision.gain.high), rule_text(result, message)});
  }
  return table;
}

std::string tune_seconds_text(double seconds) {
  constexpr double k_nanoseconds = 1e9;
  return to_text(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * k_nanoseconds)));
}

std::string verdict_of(const TuneResult& result) {
  if (result.tuned.was_stopped) {
    return "stopped";
  }
  return result.tuned.rules().empty() ? "no rule" : "rules";
}

std::string class_text(const TuneResult& result) {
  const RankRange ranks = result.classes.at(result.tuned.step_class);
  const std::int64_t count = ranks.count();
  return count == 1 ? fmt::format("rank {}", ranks.first.value)
                    : fmt::format("rank {} and {} like it", ranks.first.value, count - 1);
}

/// That launches count as fewer; empty where they do not.
std::string burst_text(const TunedMessages& tuned) {
  return tuned.launches == tuned.timed_launches
             ? std::string()
             : fmt::format(
                   "these {} launches count as {}: those that begin within {} ms of another are one\n",
                   tuned.timed_launches, tuned.launches, k_least_launch_distance.count());
}

std::string step_text(const TuneResult& result) {
  const tune::StepGain& step = result.tuned.step;
  const auto chosen = std::count_if(result.tuned.messages.begin(), result.tuned.messages.end(),
                                    [](const TunedMessage& message) { return message.has_rule(); });
  if (!result.tuned.has_enough_launches()) {
    return fmt::format("no rule: {} launch{}, and {} are the least to decide by; 10 say more\n",
                       result.tuned.launches, result.tuned.launches == 1 ? "" : "es",
                       tune::k_fewest_launches);
  }
  const bool is_one = result.tuned.timed_launches == 1;
  if (chosen == 0 && !is_one) {
    return fmt::format(
        "no rule: over {} launches no algorithm is faster than the library's choice by enough\n",
        result.tuned.launches);
  }
  if (chosen == 0) {
    return "no rule: no algorithm is faster than the library's choice by enough, in disjoint 95 % "
           "intervals\n";
  }
  if (!std::isfinite(step.gain_s.low)) {
    return fmt::format(
        "no rule: fewer than {} launches have all messages that another algorithm is faster for\n",
        tune::k_fewest_launches);
  }
  const std::string gain =
      fmt::format("{} [{}, {}] of {} ({:.1f} %)", tune_seconds_text(step.gain_s.value),
                  tune_seconds_text(step.gain_s.low), tune_seconds_text(step.gain_s.high),
                  tune_seconds_text(step.default_s), k_percent * step.gain_s.value / step.default_s);
  const std::string step_of = class_text(result);
  if (is_one) {
    return (result.tuned.is_confirmed()
                ? fmt::format("a step of {} gains {}, in rounds that did not choose\n", step_of, gain)
                : fmt::format("no rule: in rounds that did not choose, a step of {} gains {}\n", step_of,
                              gain)) +
           "this is one launch: others differ by more than its interval; ten (--launches 10, over MPI "
           "--append "
           "FILE in each of 10 jobs) say what a job gains\n";
  }
  return result.tuned.is_confirmed()
             ? fmt::format(
                   "over {} launches, a job with the rules gains {} in a step of {} against one without, "
                   "in rounds that did not choose\n",
                   result.tuned.launches, gain, step_of)
             : fmt::format(
                   "no rule: over {} launches, a step of {} gains {}, which other launches need not show\n",
                   result.tuned.launches, step_of, gain);
}

/// Name and version of what a library says of itself: "Open MPI v4.1.4" of "Open MPI v4.1.4, package: …", and
/// "MPICH 4.0.2" of MPICH, whose first line is "MPICH Version:", blanks or a tab, "4.0.2".
std::string library_name(const std::string& library) {
  std::istringstream first_line(library.substr(0, library.find_first_of(",\n")));
  std::vector<std::string> words(std::istream_iterator<std::string>(first_line), {});
  std::erase(words, "Version:");
  return fmt::format("{}", fmt::join(words, " "));
}

/// "1 message", "2 messages".
std::string number_of(std::int64_t count, std::string_view things) {
  return fmt::format("{} {}{}", count, things, count == 1 ? "" : "s");
}

std::string head_text(const TuneResult& result) {
  return fmt::format("{}: {} on {} over {} ({}), {}{} rounds, seed {}\n", result.messages,
                     number_of(std::ssize(result.tuned.messages), "message"), number_of(result.ranks, "rank"),
                     result.transport, library_name(result.library),
                     result.tuned.timed_launches == 1
                         ? ""
                         : fmt::format("{} launches, the last of ", result.tuned.timed_launches),
                     result.tuned.rounds, result.seed);
}

std::string foot_text(const TuneResult& result) {
  if (result.tuned.was_stopped) {
    return "stopped before all rounds were made: no verdict, and no file is written\n";
  }
  std::string text = burst_text(result.tuned) + step_text(result);
  if (!result.written.empty()) {
    text += fmt::format("written: {}\n", fmt::join(result.written, ", "));
  }
  return text;
}

nlohmann::ordered_json step_json(const TuneResult& result) {
  const tune::StepGain& step = result.tuned.step;
  return {{"default_s", step.default_s},
          {"gain_s", step.gain_s.value},
          {"gain_low_s", step.gain_s.low},
          {"gain_high_s", step.gain_s.high},
          {"ranks_text", class_text(result)}};
}

}  // namespace

std::string rendered(const TuneResult& result, Format format, const TextStyle& style) {
  if (!result.reports) {
    return "";
  }
  const Table table = tune_table(result);
  return in_format(
      format, [&] { return head_text(result) + table.text_with_hidden(style) + foot_text(result); },
      [&] {
        return nlohmann::ordered_json({{"schema", k_tune_schema},
                                       {"messages_of", result.messages},
                                       {"transport", result.transport},
                                       {"library", result.library},
                                       {"rank_count", result.ranks},
                                       {"round_count", result.tuned.rounds},
                                       {"seed", result.seed},
                                       {"least_gain_share", result.least_gain},
                                       {"interval_share", .95},
                                       {"clock_error_s", result.tuned.clock_error_s},
                                       {"partial", result.tuned.was_stopped},
                                       {"verdict", verdict_of(result)},
                                       {"step", step_json(result)},
                                       {"written", result.written},
                                       {"rows", rows_json(table)},
                                       {"launches", tune_launches_json(result.launches)}});
      },
      [&] { return table.csv(); });
}

}  // namespace commlens
