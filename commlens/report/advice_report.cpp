#include "commlens/report/advice_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string percent_text(double share) {
  const double percent = 100 * share;
  return fmt::format("{:.{}f} %", percent, std::fabs(percent) < 10 ? 1 : 0);
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// "+12 %", "-3.4 %", "< 0.1 %": `more` as a share of `before`.
std::string change_share(std::int64_t more, std::int64_t before) {
  constexpr double least = 0.0005;
  const double share = ratio(more, before);
  return std::fabs(share) < least ? "< 0.1 %" : (share > 0 ? "+" : "") + percent_text(share);
}

/// "-26 (-93 %)": the change of a count.
std::string calls_change(std::int64_t before, std::int64_t after) {
  const std::int64_t more = after - before;
  return more == 0
             ? "as many"
             : fmt::format("{}{} ({})", more > 0 ? "+" : "", with_commas(more), change_share(more, before));
}

std::string signed_size(Bytes bytes) {
  return bytes.value < 0 ? "-" + to_text(Bytes{-bytes.value}) : "+" + to_text(bytes);
}

std::string bytes_change(Bytes before, Bytes after) {
  const Bytes more = after - before;
  if (more.value == 0) {
    return "as many";
  }
  return before.value == 0
             ? signed_size(more)
             : fmt::format("{} ({})", signed_size(more), change_share(more.value, before.value));
}

std::string volume_text(const StepVolume& volume, bool by_node) {
  return fmt::format(
      "{} calls ({} small), {} message bytes, {} wire bytes{}", with_commas(volume.calls),
      with_commas(volume.small_calls), to_text(volume.message), to_text(volume.wire),
      by_node ? fmt::format(", of which {} leave the node", to_text(volume.wire_inter_node)) : "");
}

/// Whether bytes were split by node.
bool has_nodes(const Advice& advice) {
  const auto crosses = [](const StepCost& cost) { return cost.all_ranks.wire_inter_node.value > 0; };
  return crosses(advice.cost) || std::any_of(advice.recommended.begin(), advice.recommended.end(),
                                             [&](const Recommendation& made) { return crosses(made.after); });
}

std::string head_text(const Advice& advice) {
  const SmallMessages& small = advice.small;
  std::string text = fmt::format("one steady iteration, of the rank that sends most: {}\n",
                                 volume_text(advice.cost.per_rank, has_nodes(advice)));
  text += fmt::format("messages below {}: {} of {} calls{}\n", to_text(small.limit), with_commas(small.calls),
                      with_commas(small.all_calls),
                      small.time ? fmt::format(", {} of their time ({})", percent_text(small.share()),
                                               "the trace's steady iterations, all ranks")
                                 : " of all ranks (predicted; no times)");
  text += fmt::format("memory of the fullest rank: {} (estimated){}\n", to_text(advice.cost.memory),
                      advice.cost.bubble > 0
                          ? fmt::format("; pipeline bubble: {} of the step", percent_text(advice.cost.bubble))
                          : "");
  return text;
}

std::string saving_text(const Recommendation& made, bool by_node) {
  const StepVolume& before = made.before.per_rank;
  const StepVolume& after = made.after.per_rank;
  std::string text =
      fmt::format("a rank: calls {}, wire {}, message {}", calls_change(before.calls, after.calls),
                  bytes_change(before.wire, after.wire), bytes_change(before.message, after.message));
  if (by_node) {
    text += ", between nodes " + bytes_change(before.wire_inter_node, after.wire_inter_node);
  }
  text += fmt::format("; memory {}",
                      made.memory_added().value == 0 ? "as much" : signed_size(made.memory_added()));
  if (made.before.bubble != made.after.bubble) {
    text +=
        fmt::format("; bubble {} -> {}", percent_text(made.before.bubble), percent_text(made.after.bubble));
  }
  if (made.time_saved) {
    text += fmt::format("; time {}{}, estimated", made.time_saved->count() < 0 ? "+" : "-",
                        to_text(std::chrono::abs(*made.time_saved)));
  }
  return text;
}

/// `label` and then a text that is wrapped beside it.
std::string paragraph(std::string_view label, std::string_view body, const TextStyle& style) {
  constexpr std::size_t indent = 3;
  constexpr std::size_t label_width = 9;
  TextStyle narrow = style;
  const std::size_t margin = indent + label_width;
  narrow.width = style.width > margin ? style.width - margin : style.width;
  std::string text = wrapped(std::string(body) + "\n", narrow);
  std::string result = fmt::format("{:{}}{:{}}", "", indent, label, label_width);
  for (std::size_t at = 0; at < text.size(); ++at) {
    result += text[at];
    if (text[at] == '\n' && at + 1 < text.size()) {
      result += std::string(margin, ' ');
      // Continuation lines are aligned here, so the indent of wrapped() is removed.
      at += text.compare(at + 1, 2, "  ") == 0 ? 2 : 0;
    }
  }
  return result;
}

std::string recommendation_text(const Recommendation& made, std::size_t number, bool by_node,
                                const TextStyle& style) {
  const std::string marks = std::string(made.required ? " (it does not fit as it is)" : "") +
                            (made.verified ? "" : " (unverified rules)");
  std::string text = fmt::format("{}. {}{}\n", number, in_colour(made.title, Colour::bold, style), marks);
  text += paragraph("why", made.reason, style);
  text += paragraph("changes", saving_text(made, by_node), style);
  text += paragraph("set", made.setting, style);
  text += made.flag.empty() ? "" : paragraph("try", "commlens predict with " + made.flag, style);
  text += made.time_saved ? paragraph("time", "estimated: " + made.time_source, style) : "";
  return text + "\n";
}

std::string list_text(std::string_view title, const std::vector<std::string>& lines, const TextStyle& style) {
  std::string text;
  for (const std::string& line : lines) {
    text += "- " + line + "\n";
  }
  return lines.empty() ? "" : fmt::format("{}\n{}", title, wrapped(text, style));
}

Json volume_json(const StepVolume& volume) {
  return {{"calls", volume.calls},
          {"small_calls", volume.small_calls},
          {"message_bytes", volume.message.value},
          {"wire_bytes", volume.wire.value},
          {"wire_inter_node_bytes", volume.wire_inter_node.value}};
}

Json cost_json(const StepCost& cost) {
  return {{"per_rank", volume_json(cost.per_rank)},
          {"all_ranks", volume_json(cost.all_ranks)},
          {"memory_bytes_per_rank", cost.memory.value},
          {"bubble_share", cost.bubble}};
}

Json time_json(const std::optional<std::chrono::nanoseconds>& time) {
  return time ? Json(time->count()) : Json(nullptr);
}

Table recommendations_table(const Advice& advice) {
  Table table(columns({"id", "title", "flag", "setting", "required", "calls_saved_per_rank",
                       "message_bytes_saved_per_rank", "wire_bytes_saved_per_rank",
                       "wire_inter_node_bytes_saved_per_rank", "memory_added_bytes_per_rank",
                       "bubble_share_saved", "time_saved_ns", "reason", "verified", "time_source"}));
  for (const Recommendation& made : advice.recommended) {
    table.add({made.id, made.title, made.flag, made.setting, made.required, made.calls_saved(),
               made.message_saved(), made.wire_saved(), made.inter_node_saved(), made.memory_added(),
               made.before.bubble - made.after.bubble, made.time_saved, made.reason, made.verified,
               made.time_source});
  }
  return table;
}

}  // namespace

std::string advice_text(const Advice& advice, const TextStyle& style) {
  std::string text = wrapped(head_text(advice), style) + "\n";
  const bool by_node = has_nodes(advice);
  for (std::size_t at = 0; at < advice.recommended.size(); ++at) {
    text += recommendation_text(advice.recommended[at], at + 1, by_node, style);
  }
  if (advice.recommended.empty()) {
    text += "nothing to advise: no setting that was tried saves enough\n\n";
  } else {
    text += wrapped(
        "Each is predicted with that one setting changed; savings of several do not add up. Per iteration, "
        "of the "
        "rank that sends most.\n\n",
        style);
  }
  text += list_text("tried, and left alone:", advice.not_advised, style);
  return text + list_text("not judged:", advice.not_judged, style);
}

Json advice_json(const Advice& advice) {
  const SmallMessages& small = advice.small;
  Json made = rows_json(recommendations_table(advice));
  for (std::size_t at = 0; at < advice.recommended.size(); ++at) {
    made[at]["before"] = cost_json(advice.recommended[at].before);
    made[at]["after"] = cost_json(advice.recommended[at].after);
  }
  return {{"cost", cost_json(advice.cost)},
          {"small_messages",
           {{"small_limit_bytes", small.limit.value},
            {"small_calls_all_ranks", small.calls},
            {"calls_all_ranks", small.all_calls},
            {"small_time_ns_all_ranks", time_json(small.time)},
            {"time_ns_all_ranks", time_json(small.all_time)},
            {"small_share_of_calls", ratio(small.calls, small.all_calls)},
            {"small_share_of_time", small.time ? Json(small.share()) : Json()}}},
          {"recommendations", made},
          {"not_advised", advice.not_advised},
          {"not_judged", advice.not_judged}};
}

std::string advice_csv(const Advice& advice) { return recommendations_table(advice).csv(); }

}  // namespace commlens
