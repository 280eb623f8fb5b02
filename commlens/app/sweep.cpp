#include "commlens/app/sweep.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/sums.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::set<CommKind> kinds_in(const std::vector<SweepRow>& rows) {
  std::set<CommKind> kinds;
  for (const SweepRow& row : rows) {
    for (const auto& [kind, message] : row.message_per_rank) {
      kinds.insert(kind);
    }
  }
  return kinds;
}

Bytes message_of(const SweepRow& row, CommKind kind) {
  const auto found = row.message_per_rank.find(kind);
  return found == row.message_per_rank.end() ? Bytes{0} : found->second;
}

std::string bare(const std::string& flag) { return flag.substr(flag.find_first_not_of('-')); }

/// The distinct texts of `text_of` for the possible combinations.
template <typename TextOf>
std::vector<std::string> texts_in(const std::vector<SweepRow>& rows, TextOf text_of) {
  std::vector<std::string> texts;
  for (const SweepRow& row : rows) {
    const std::string text = text_of(row);
    if (row.reason.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(text);
    }
  }
  return texts;
}

std::string rules_text(const SweepRow& row) {
  return row.framework_version.empty() ? row.framework : row.framework + " " + row.framework_version;
}

/// The one framework or version that all possible combinations have, else null.
Json shared_json(const std::vector<SweepRow>& rows, std::string SweepRow::* text) {
  const std::vector<std::string> texts = texts_in(rows, [&](const SweepRow& row) { return row.*text; });
  return texts.size() == 1 ? Json(texts.front()) : Json();
}

/// Wire bytes of all ranks per sequence, as an integer if it is one. Precondition: the row has sequences.
Cell wire_per_sequence(const SweepRow& row) {
  const std::int64_t wire = row.aggregate_wire.value;
  return (wire % row.sequences == 0 ? Cell(wire / row.sequences)
                                    : Cell(static_cast<double>(wire) / static_cast<double>(row.sequences)))
      .shown(to_text(Bytes{wire / row.sequences}));
}

/// "2 of 6 combinations are unverified: tp 2; version 0.15"; empty if all are verified.
std::string unverified_text(const std::vector<SweepRow>& rows) {
  std::vector<std::string> reasons;
  std::int64_t count = 0;
  for (const SweepRow& row : rows) {
    count += row.unverified.empty() ? 0 : 1;
    for (const std::string& reason : row.unverified) {
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
        reasons.push_back(reason);
      }
    }
  }
  return count == 0 ? ""
                    : fmt::format("{} of {} combinations {} unverified: {}\n", count, rows.size(),
                                  count == 1 ? "is" : "are", fmt::join(reasons, "; "));
}

std::string head_text(const SweepHead& head, const std::vector<SweepRow>& rows) {
  return fmt::format("{}, rules of {}, {} iteration; {} bytes of rank {} by op\n", head.model,
                     fmt::join(texts_in(rows, rules_text), " or "), head.iteration,
                     head.accounting == "messages" ? "message" : "logger", head.rank) +
         unverified_text(rows);
}

/// One column per swept flag; --framework is beside the others in CSV, which has the framework of every row.
std::vector<ColumnUse> flag_columns(const std::vector<SweepRow>& rows) {
  std::vector<ColumnUse> list;
  for (const auto& [flag, value] : rows.front().swept) {
    std::string key = bare(flag);
    std::replace(key.begin(), key.end(), '-', '_');
    list.emplace_back(Column{.key = key,
                             .title = bare(flag),
                             .unit = ColumnUnit::id,
                             .in_csv = flag != "--framework",
                             .json = "flags." + key});
  }
  return list;
}

Cell flag_cell(const std::string& value) {
  const bool is_number = value.find_first_not_of("0123456789") == std::string::npos && value.size() < 19;
  return is_number ? Cell(std::stoll(value)) : Cell(value);
}

/// A column of the possible rows, which JSON groups as the totals of one prediction.
Column grouped(std::string key, std::string json, int drop_first = 0) {
  return {.key = std::move(key), .drop_first = drop_first, .optional = true, .json = std::move(json)};
}

std::vector<Column> sweep_columns(const std::vector<SweepRow>& rows, const std::set<CommKind>& kinds) {
  std::vector<ColumnUse> list = flag_columns(rows);
  list.push_back(grouped("calls_per_rank", "per_rank.calls", 1));
  for (const CommKind kind : kinds) {
    Column column = column_of(kind, "OP_message_bytes_per_rank");
    column.drop_first = 3;
    column.optional = true;
    column.json = fmt::format("per_rank.message_bytes_by_op.{}", name_of(kind));
    list.push_back(std::move(column));
  }
  return concatenated(
      columns(std::move(list)),
      columns(
          {grouped("wire_bytes_per_rank", "per_rank.wire_bytes"),
           Column{.key = "wire_inter_node_bytes_per_rank",
                  .title = "inter-node/rank",
                  .optional = true,
                  .json = "per_rank.wire_inter_node_bytes"},
           Column{.key = "wire_bytes_all_ranks",
                  .title = "wire, all ranks",
                  .drop_first = 2,
                  .optional = true,
                  .json = "aggregate.wire_bytes"},
           Column{.key = "model", .in_text = false, .in_json = false}, data("framework"),
           Column{.key = "framework_version", .in_text = false, .optional = true},
           Column{.key = "verified", .in_text = false, .optional = true},
           Column{.key = "reason", .title = " ", .least = 10, .optional = true},
           grouped("sequences_per_iteration", ""),
           grouped("wire_bytes_per_sequence_all_ranks", "aggregate.wire_bytes_per_sequence"),
           Column{.key = "message_bytes_per_rank",
                  .in_text = false,
                  .optional = true,
                  .json = "per_rank.message_bytes"},
           Column{.key = "unverified", .in_text = false, .optional = true},
           Column{
               .key = "memory_bytes_per_rank", .title = "memory/rank", .drop_first = 4, .optional = true}}));
}

Cells sweep_cells(const SweepHead& head, const SweepRow& row, const std::set<CommKind>& kinds) {
  const bool possible = row.reason.empty();
  const bool has_work = possible && row.sequences > 0;
  Cells cells;
  for (const auto& [flag, value] : row.swept) {
    cells.push_back(flag_cell(value));
  }
  const auto add = [&](Cell cell) { cells.push_back(possible ? std::move(cell) : or_dash({})); };
  add(row.per_rank.calls);
  for (const CommKind kind : kinds) {
    add(message_of(row, kind));
  }
  add(row.per_rank.wire);
  add(row.inter_node_per_rank);
  add(row.aggregate_wire);
  const auto if_possible = [&](Cell cell) { return possible ? std::move(cell) : Cell(); };
  const std::string mark = row.unverified.empty() ? "" : "unverified";
  return concatenated(
      std::move(cells),
      Cells{head.model, row.framework, if_possible(row.framework_version),
            if_possible(row.unverified.empty()), possible ? Cell().shown(mark) : Cell(row.reason),
            has_work ? Cell(row.sequences) : Cell(), has_work ? wire_per_sequence(row) : Cell(),
            if_possible(row.per_rank.message), if_possible(row.unverified), if_possible(row.memory)});
}

Table sweep_table(const SweepHead& head, const std::vector<SweepRow>& rows) {
  const std::set<CommKind> kinds = kinds_in(rows);
  Table table(sweep_columns(rows, kinds));
  for (const SweepRow& row : rows) {
    table.add(sweep_cells(head, row, kinds));
  }
  if (!head.by_node) {
    table.remove({"wire_inter_node_bytes_per_rank"});
  }
  return table;
}

}  // namespace

SweepRow sweep_row(const Prediction& prediction) {
  SweepRow row;
  row.per_rank = prediction.per_rank;
  row.aggregate_wire = prediction.aggregate_wire;
  row.inter_node_per_rank = prediction.inter_node_per_rank;
  row.sequences = prediction.iteration == k_init_iteration ? 0 : sequences_per_iteration(prediction.job);
  row.memory = memory_per_rank(prediction.job).total();
  row.framework = prediction.job.framework;
  row.framework_version = framework_version(prediction);
  row.unverified = prediction.unverified;
  const Rank rank = prediction.view.rank.value_or(Rank{0});
  for (const BreakdownRow& each : prediction.rows) {
    if (each.ranks.contains(rank) && each.kind != CommKind::barrier) {
      Bytes& message = row.message_per_rank[each.kind];
      message = saturating_sum(message, each.total_message);
    }
  }
  return row;
}

std::string uneven_work_text(const std::vector<SweepRow>& rows) {
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (const SweepRow& row : rows) {
    if (row.reason.empty()) {
      least = least == 0 ? row.sequences : std::min(least, row.sequences);
      most = std::max(most, row.sequences);
    }
  }
  return least == most ? ""
                       : fmt::format(
                             "the rows do different work, {} to {} sequences per iteration; "
                             "--global-batch N holds it fixed",
                             with_commas(least), with_commas(most));
}

std::string sweep_text(const SweepHead& head, const std::vector<SweepRow>& rows, const TextStyle& style) {
  const Table table = sweep_table(head, rows);
  std::vector<ColumnUse> shown;
  std::copy_if(table.columns().begin(), table.columns().end(), std::back_inserter(shown),
               [](const Column& column) { return column.in_text; });
  std::stable_partition(shown.begin(), shown.end(),
                        [](const Column& column) { return column.key != "reason"; });  // last for people
  return wrapped(head_text(head, rows), style) + table.picked(shown).text_with_hidden(style);
}

Json sweep_json(const SweepHead& head, const std::vector<SweepRow>& rows) {
  return {{"schema", "commlens.predict_sweep/2"},
          {"model", {{"name", head.model}}},
          {"framework", shared_json(rows, &SweepRow::framework)},
          {"framework_version", shared_json(rows, &SweepRow::framework_version)},
          {"iteration", head.iteration},
          {"accounting", head.accounting},
          {"rank", head.rank},
          {"rows", rows_json(sweep_table(head, rows))}};
}

std::string sweep_csv(const SweepHead& head, const std::vector<SweepRow>& rows) {
  return sweep_table(head, rows).csv();
}

}  // namespace commlens
