// What search_layouts() finds, for people and programs.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/search_layouts.hpp"
#include "commlens/base/units.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_of_front = 8;  // for people
constexpr double k_front_step = 0.9;        // of the memory: the next point that people see has less

Bytes bytes_of_double(double bytes) { return Bytes{static_cast<std::int64_t>(std::llround(bytes))}; }

/// The columns of a layout, and its cells.
std::vector<ColumnUse> layout_columns() {
  return {"dp",
          "tp",
          "pp",
          "cp",
          "ep",
          "expert_tp",
          "virtual_stages",
          "micro_batch",
          "micro_batches",
          Column{.key = "recompute", .drop_first = 4},
          Column{.key = "data_parallelism", .drop_first = 6, .least = 9},
          "shard_group",
          Column{.key = "sequence_parallel", .drop_first = 2},
          Column{.key = "overlapped", .drop_first = 1},
          data("layout_text")};
}

std::vector<Cell> layout_cells(const RankedLayout& ranked) {
  const RunLayout& layout = ranked.layout;
  return {layout.data(),
          layout.tensor,
          layout.pipeline,
          layout.context,
          layout.expert,
          layout.expert > 1 ? Cell(layout.expert_tensor) : Cell(),
          layout.virtual_stages,
          layout.micro_batch,
          layout.micro_batches(),
          name_of(ranked.behaviour.recompute),
          name_of(layout.data_kind, 0),
          layout.shard_group > 0 ? Cell(layout.shard_group) : Cell(),
          layout.has_sequence_parallel,
          overlaps_of(layout, ranked.behaviour),
          layout_text(layout, ranked.behaviour)};
}

std::string provenance_of(const SearchedRun& searched, const RankedLayout& ranked) {
  return searched.of(ranked.layout.data_kind).basis.provenance;
}

bool is_equal(const SearchedRun& searched, const RankedLayout& ranked, const RankedLayout& fastest) {
  return is_near_fastest(ranked.seconds, searched.of(ranked.layout.data_kind).basis.spread, fastest.seconds,
                         searched.of(fastest.layout.data_kind).basis.spread);
}

/// Time, interval and memory of a layout.
std::vector<Cell> time_cells(const SearchedRun& searched, const RankedLayout& ranked) {
  const TimeRange interval = range_of(searched, ranked);
  return {Cell(ranked.seconds),
          Cell(interval.low),
          Cell(interval.high),
          Cell(bytes_of_double(ranked.memory_bytes)),
          Cell(bytes_of_double(ranked.memory_bytes / k_memory_factor)),
          Cell(bytes_of_double(ranked.memory_bytes * k_memory_factor))};
}

/// `drop_interval`: when a narrow terminal hides the interval (Column::drop_first).
std::vector<ColumnUse> time_columns(int drop_interval = 0) {
  return {"time_s",
          Column{.key = "low_s", .drop_first = drop_interval},
          Column{.key = "high_s", .drop_first = drop_interval},
          "memory_bytes_per_rank",
          data("memory_low_bytes_per_rank"),
          data("memory_high_bytes_per_rank")};
}

std::vector<ColumnUse> part_columns() {
  std::vector<ColumnUse> uses;
  for (const char* const key : {"compute_s", "tensor_messages_s", "bubble_s", "stage_messages_s",
                                "data_messages_s", "optimizer_s", "other_s"}) {
    uses.emplace_back(data(key));
  }
  return uses;
}

std::vector<Cell> part_cells(const IterationTime& time) {
  return {time.compute, time.tensor, time.bubble, time.stages, time.data, time.optimizer, time.other};
}

/// Columns that have the same small value in every row are not shown to people.
void hide_ones(std::vector<Column>& shown, const std::vector<RankedLayout>& layouts) {
  const auto all = [&](const auto& is_plain) {
    return std::all_of(layouts.begin(), layouts.end(), is_plain);
  };
  const auto hide = [&](std::string_view key, bool is_hidden) {
    for (Column& column : shown) {
      column.in_text = column.in_text && !(is_hidden && column.key == key);
    }
  };
  hide("cp", all([](const RankedLayout& each) { return each.layout.context == 1; }));
  const bool has_no_experts = all([](const RankedLayout& each) { return each.layout.expert == 1; });
  hide("ep", has_no_experts);
  hide("expert_tp", has_no_experts);
  hide("virtual_stages", all([](const RankedLayout& each) { return each.layout.virtual_stages == 1; }));
  hide("shard_group", all([](const RankedLayout& each) { return each.layout.shard_group == 0; }));
  hide("micro_batches", true);
}

Cell text_or_none(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

/// The time that `simulate` has, its interval and its provenance.
std::vector<Cell> simulated_cells(const RetimedLayout& simulated) {
  if (!simulated.seconds) {
    return {Cell(), Cell(), Cell(), Cell()};
  }
  return {Cell(simulated.seconds->value), Cell(simulated.seconds->low), Cell(simulated.seconds->high),
          text_or_none(simulated.provenance)};
}

/// `retimed`: what `simulate` says of the first of them.
Table layout_table(const SearchResult& result, const std::vector<RankedLayout>& layouts,
                   const std::vector<RetimedLayout>& retimed = {}) {
  const SearchAnswer& answer = result.answer;
  std::vector<Column> shown = columns(concatenated(
      std::vector<ColumnUse>{"place"}, time_columns(),
      std::vector<ColumnUse>{"simulated_s", Column{.key = "simulated_low_s", .drop_first = 3},
                             Column{.key = "simulated_high_s", .drop_first = 3}, data("simulated_provenance"),
                             Column{.key = "mfu_share", .drop_first = 5}},
      layout_columns(), part_columns(),
      std::vector<ColumnUse>{data("equal_within_error"), data("provenance"), data("reason")}));
  hide_ones(shown, layouts);
  Table table(shown);
  const RankedLayout& fastest = answer.ranking.fastest.front();
  std::int64_t place = 0;
  for (const RankedLayout& layout : layouts) {
    const auto index = static_cast<std::size_t>(place);
    const RetimedLayout simulated = index < retimed.size() ? retimed[index] : RetimedLayout();
    table.add(concatenated(
        std::vector<Cell>{Cell(++place)}, time_cells(answer.searched, layout), simulated_cells(simulated),
        std::vector<Cell>{Cell(mfu_of(answer.searched.first().base, layout))}, layout_cells(layout),
        part_cells(layout.time),
        std::vector<Cell>{Cell(is_equal(answer.searched, layout, fastest)),
                          Cell(provenance_of(answer.searched, layout)), text_or_none(simulated.reason)}));
  }
  if (retimed.empty()) {
    table.remove({"simulated_s", "simulated_low_s", "simulated_high_s", "simulated_provenance", "reason"});
  }
  return table;
}

std::vector<RankedLayout> listed(const SearchResult& result) {
  const std::vector<RankedLayout>& all = result.answer.ranking.fastest;
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(result.top, all.size()))};
}

Table change_table(const SearchResult& result) {
  const SearchAnswer& answer = result.answer;
  const double now = answer.ranking.fastest.front().seconds;
  Table table(columns(concatenated(std::vector<ColumnUse>{Column{.title = "one change", .least = 30},
                                                          data("setting"), data("now"), data("then")},
                                   time_columns(1),
                                   std::vector<ColumnUse>{"slower_share", "fits", data("layout_text")})));
  for (const LayoutChange& change : answer.changes) {
    const double slower = change.layout.seconds / now - 1;
    table.add(concatenated(
        std::vector<Cell>{Cell(fmt::format("{} {} instead of {}", change.setting, change.to, change.from)),
                          Cell(change.setting), Cell(change.from), Cell(change.to)},
        time_cells(answer.searched, change.layout),
        std::vector<Cell>{Cell(slower).shown(fmt::format("{:.1f} % {}", std::abs(100 * slower),
                                                         slower < 0 ? "less" : "more")),
                          Cell(change.fits).shown(change.fits ? "" : "does not fit"),
                          Cell(layout_text(change.layout.layout, change.layout.behaviour))}));
  }
  return table;
}

/// Points whose memory differs; the fastest is the first of the list already.
Table front_table(const SearchResult& result, std::size_t most, double step) {
  Table table(
      columns(concatenated(time_columns(), std::vector<ColumnUse>{Column{.title = "layout", .least = 20}},
                           std::vector<ColumnUse>{})));
  double memory = 0;
  for (const RankedLayout& layout : result.answer.ranking.front) {
    if (table.rows().size() >= most || (memory > 0 && layout.memory_bytes > step * memory)) {
      continue;
    }
    memory = layout.memory_bytes;
    table.add(concatenated(time_cells(result.answer.searched, layout),
                           std::vector<Cell>{Cell(layout_text(layout.layout, layout.behaviour))}));
  }
  return table;
}

std::string_view precision_name(MatrixPrecision precision) {
  return precision == MatrixPrecision::bf16 ? "bf16" : precision == MatrixPrecision::fp8 ? "fp8" : "fp4";
}

/// That layouts were simulated with.
std::string library_text(const std::vector<RetimedLayout>& retimed) {
  const auto simulated = std::find_if(retimed.begin(), retimed.end(),
                                      [](const RetimedLayout& each) { return !each.library.empty(); });
  return simulated == retimed.end() ? "" : simulated->library;
}

std::string question_text(const SearchQuestion& question, const SearchedRun& searched,
                          const std::string& devices) {
  return fmt::format("{}, {} sequences of {} tokens in {}, on {} of {} ({}), as {} runs it\n",
                     question.model.name, with_commas(question.global_batch),
                     with_commas(question.model.sequence), precision_name(question.precision), devices,
                     question.machine.name, question.machine.processor.name, searched.first().framework);
}

double percent(double spread) { return 100 * (std::exp(spread) - 1); }

std::string basis_text(const SearchedRun& searched) {
  const RunBasis& basis = searched.first().basis;
  std::string text =
      fmt::format("times: {}, 90 % intervals of {:.0f} %", basis.provenance, percent(basis.spread));
  for (const TimedSpace& each : searched.spaces) {
    if (&each != &searched.first()) {
      text += fmt::format("; with sharded parameters, as {} runs it: {}, {:.0f} %", each.framework,
                          each.basis.provenance, percent(each.basis.spread));
    }
  }
  return text + "; memory is an estimate\n";
}

std::string equal_text(const SearchAnswer& answer) {
  const Ranking& ranking = answer.ranking;
  if (ranking.equal <= 1) {
    return "No other layout is as fast within the error.\n";
  }
  std::vector<std::string> spans;
  for (std::size_t index = 0; index < k_spans.size(); ++index) {
    const SpanOfValues& span = ranking.spans[index];
    if (span.least == span.most && span.most > 1) {
      spans.push_back(fmt::format("{} {}", k_spans[index], span.most));
    } else if (span.least < span.most) {
      spans.push_back(fmt::format("{} {} to {}", k_spans[index], span.least, span.most));
    }
  }
  return fmt::format("These {} are equal within the error: {}.\n", with_commas(ranking.equal),
                     fmt::join(spans, ", "));
}

std::string binding_text(const SearchAnswer& answer) {
  const RankedLayout& best = answer.ranking.fastest.front();
  std::vector<std::string> parts;
  for (const TimePart& part : parts_of_time(best.time)) {
    if (const double share = part.seconds / best.seconds; share >= 5e-4) {
      parts.push_back(fmt::format("{} {:.1f} %", part.name, 100 * share));
    }
  }
  const std::string text = fmt::format("What binds the first: {}.\n", fmt::join(parts, ", "));
  const std::string limit = to_text(bytes_of_double(answer.searched.memory_limit));
  if (!answer.ranking.with_twice) {
    return text + fmt::format("Memory does not: it takes {} of {}, and with twice as much none is faster.\n",
                              to_text(bytes_of_double(best.memory_bytes)), limit);
  }
  const RankedLayout& faster = *answer.ranking.with_twice;
  const TimeRange interval = range_of(answer.searched, faster);
  const double less = 100 * (1 - faster.seconds / best.seconds);
  return text +
         fmt::format(
             "Memory does too: with twice the {}, {} would take {:.3g} s ({:.3g} to {:.3g}), {:.1f} % less, "
             "and need {}.\n",
             limit, layout_text(faster.layout, faster.behaviour), faster.seconds, interval.low, interval.high,
             less, to_text(bytes_of_double(faster.memory_bytes)));
}

std::string retimed_text(const SearchResult& result) {
  if (result.retimed.empty()) {
    return "";
  }
  const OrderAgreement agreement = order_agreement(result);
  std::string text = fmt::format("Simulated: {} of the first {}", agreement.layouts, result.retimed.size());
  text += agreement.pairs > 0
              ? fmt::format(
                    "; of {} pairs {} are in the same order (Kendall's tau {:.2f}), {} of the others "
                    "apart by no more than the error of either.\n",
                    agreement.pairs, agreement.same, agreement.tau(), agreement.within_error)
              : ".\n";
  std::map<std::string, std::int64_t> reasons;
  for (const RetimedLayout& layout : result.retimed) {
    if (!layout.reason.empty()) {
      ++reasons[layout.reason];
    }
  }
  for (const auto& [reason, count] : reasons) {
    text += fmt::format("Passed over: {} ({}).\n", count, reason);
  }
  return text;
}

std::string search_text(const SearchResult& result, const TextStyle& style) {
  const SearchAnswer& answer = result.answer;
  const Ranking& ranking = answer.ranking;
  std::string text = question_text(
      result.question, answer.searched,
      fmt::format("{} device{}", with_commas(result.question.ranks), result.question.ranks == 1 ? "" : "s"));
  text += fmt::format("{} layouts evaluated, {} of them fit into {}\n", with_commas(ranking.evaluated),
                      with_commas(ranking.fitting), to_text(bytes_of_double(answer.searched.memory_limit)));
  text = wrapped(text + basis_text(answer.searched), style) + "\n";
  text += layout_table(result, listed(result), result.retimed).text_with_hidden(style) + "\n";
  text += wrapped(retimed_text(result) + equal_text(answer) + binding_text(answer), style);
  const Table front = front_table(result, k_most_of_front, k_front_step);
  if (front.rows().size() > 1) {
    text += "\nLess memory: no layout is faster with as little\n" + front.text_with_hidden(style);
  }
  if (!answer.changes.empty()) {
    text += "\nOne change of the first\n" + change_table(result).text_with_hidden(style);
  }
  return text;
}

nlohmann::ordered_json question_json(const SearchQuestion& question, const SearchedRun& searched) {
  return {{"model", question.model.name},
          {"machine", question.machine.name},
          {"processor", question.machine.processor.name},
          {"rank_count", question.ranks},
          {"sequences_per_iteration", question.global_batch},
          {"sequence", question.model.sequence},
          {"precision", precision_name(question.precision)},
          {"framework", searched.first().framework},
          {"memory_limit_bytes", bytes_of_double(searched.memory_limit).value},
          {"provenance", searched.first().basis.provenance},
          {"interval_share", .9}};
}

Table whole_front(const SearchResult& result) { return layout_table(result, result.answer.ranking.front); }

nlohmann::ordered_json search_json(const SearchResult& result) {
  const SearchAnswer& answer = result.answer;
  const Ranking& ranking = answer.ranking;
  nlohmann::ordered_json json = {{"schema", "commlens.search/1"}};
  json.update(question_json(result.question, answer.searched));
  json["evaluated_layouts"] = ranking.evaluated;
  json["fitting_layouts"] = ranking.fitting;
  json["equal_layouts"] = ranking.equal;
  if (!result.retimed.empty()) {
    const OrderAgreement agreement = order_agreement(result);
    json["simulated_layouts"] = agreement.layouts;
    json["simulated_order_tau"] = agreement.tau();
    json["library"] = library_text(result.retimed);
  }
  json["rows"] = rows_json(layout_table(result, listed(result), result.retimed));
  json["front"] = rows_json(whole_front(result));
  json["changes"] = rows_json(change_table(result));
  json["with_twice_the_memory"] = ranking.with_twice ? rows_json(layout_table(result, {*ranking.with_twice}))
                                                     : nlohmann::ordered_json::array();
  return json;
}

/// Tokens a second.
Cell rate_cell(double rate) {
  return Cell(rate).shown(with_commas(static_cast<std::int64_t>(std::llround(rate))));
}

Table scale_table(const ScaleResult& result) {
  const ScaleAnswer& answer = result.answer;
  std::vector<RankedLayout> layouts;
  for (const ScalePoint& point : answer.points) {
    if (point.reason.empty()) {
      layouts.push_back(point.layout);
    }
  }
  std::vector<Column> shown = columns(concatenated(
      std::vector<ColumnUse>{Column{.key = "rank_count", .title = "devices"}}, time_columns(),
      std::vector<ColumnUse>{"tokens_per_s", Column{.key = "scaling_share", .drop_first = 7},
                             Column{.key = "mfu_share", .drop_first = 3}},
      layout_columns(), part_columns(), std::vector<ColumnUse>{data("provenance"), data("reason")}));
  hide_ones(shown, layouts);
  Table table(shown);
  const double tokens = static_cast<double>(result.question.global_batch * result.question.model.sequence);
  double first = 0;  // device-seconds of the fewest devices
  for (const ScalePoint& point : answer.points) {
    if (!point.reason.empty()) {
      std::vector<Cell> cells(shown.size());
      cells.front() = Cell(point.ranks);
      cells.back() = Cell(point.reason);
      table.add(std::move(cells));
      continue;
    }
    const double device_seconds = point.layout.seconds * static_cast<double>(point.ranks);
    first = first > 0 ? first : device_seconds;
    table.add(concatenated(std::vector<Cell>{Cell(point.ranks)}, time_cells(answer.searched, point.layout),
                           std::vector<Cell>{rate_cell(tokens / point.layout.seconds),
                                             Cell(first / device_seconds), Cell(point.mfu)},
                           layout_cells(point.layout), part_cells(point.layout.time),
                           std::vector<Cell>{Cell(provenance_of(answer.searched, point.layout)), Cell()}));
  }
  return table;
}

/// Why there is no layout on some numbers of devices.
std::string no_layout_text(const ScaleAnswer& answer) {
  std::string text;
  for (const ScalePoint& point : answer.points) {
    if (!point.reason.empty()) {
      text += fmt::format("{} device{}: {}\n", with_commas(point.ranks), point.ranks == 1 ? "" : "s",
                          point.reason);
    }
  }
  return text;
}

std::string scale_text(const ScaleResult& result, const TextStyle& style) {
  const ScaleAnswer& answer = result.answer;
  std::int64_t evaluated = 0;
  for (const ScalePoint& point : answer.points) {
    evaluated += point.evaluated;
  }
  const std::string head =
      question_text(result.question, answer.searched,
                    fmt::format("up to {} devices", with_commas(result.question.ranks))) +
      fmt::format("the fastest of {} layouts that fit into {}\n", with_commas(evaluated),
                  to_text(bytes_of_double(answer.searched.memory_limit))) +
      basis_text(answer.searched);
  return wrapped(head, style) + "\n" + scale_table(result).with_value("time_s").text_with_hidden(style) +
         wrapped(no_layout_text(answer), style);
}

}  // namespace

std::string rendered(const SearchResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return search_text(result, style); }, [&] { return search_json(result); },
      [&] { return layout_table(result, listed(result)).csv(); });
}

std::string rendered(const ScaleResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return scale_text(result, style); },
      [&] {
        nlohmann::ordered_json json = {{"schema", "commlens.search_scaling/1"}};
        json.update(question_json(result.question, result.answer.searched));
        json["rows"] = rows_json(scale_table(result));
        return json;
      },
      [&] { return scale_table(result).csv(); });
}

}  // namespace commlens
