#include "commlens/app/sweep.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/sums.hpp"
#include "commlens/report/csv.hpp"
#include "commlens/report/wrapped.hpp"

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

/// What `text_of` says of the possible combinations, each once.
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

bool sweeps_framework(const std::vector<SweepRow>& rows) {
  const auto& swept = rows.front().swept;
  return !swept.empty() && swept.front().first == "--framework";
}

/// Wire bytes of all ranks for one sequence; the row has sequences.
double wire_per_sequence(const SweepRow& row) {
  return static_cast<double>(row.aggregate_wire.value) / static_cast<double>(row.sequences);
}

/// The same as a number: whole where it is.
Json wire_per_sequence_json(const SweepRow& row) {
  return row.aggregate_wire.value % row.sequences == 0 ? Json(row.aggregate_wire.value / row.sequences)
                                                       : Json(wire_per_sequence(row));
}

/// "2 of 6 combinations are unverified: tp 2; version 0.15": nothing when all are verified.
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

Json flags_json(const SweepRow& row) {
  Json flags;
  for (const auto& [flag, value] : row.swept) {
    std::string key = bare(flag);
    std::replace(key.begin(), key.end(), '-', '_');
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos && value.size() < 19;
    flags[key] = is_number ? Json(std::stoll(value)) : Json(value);
  }
  return flags;
}

}  // namespace

SweepRow sweep_row(const Prediction& prediction) {
  SweepRow row;
  row.per_rank = prediction.per_rank;
  row.aggregate_wire = prediction.aggregate_wire;
  row.inter_node_per_rank = prediction.inter_node_per_rank;
  row.sequences = prediction.iteration == k_init_iteration ? 0 : sequences_per_iteration(prediction.job);
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
  const std::set<CommKind> kinds = kinds_in(rows);
  std::vector<Column> columns;
  for (const auto& [flag, value] : rows.front().swept) {
    columns.push_back({.title = bare(flag), .align = Column::Align::right});
  }
  columns.push_back({.title = "calls", .align = Column::Align::right, .drop_first = 1});
  for (const CommKind kind : kinds) {
    columns.push_back({.title = std::string(name_of(kind)), .align = Column::Align::right, .drop_first = 3});
  }
  columns.push_back({.title = "wire/rank", .align = Column::Align::right});
  columns.push_back({.title = "inter-node/rank", .align = Column::Align::right});
  columns.push_back({.title = "wire, all ranks", .align = Column::Align::right, .drop_first = 2});
  columns.push_back({.title = "sequences", .align = Column::Align::right});
  columns.push_back({.title = "wire/sequence", .align = Column::Align::right});
  columns.push_back({.title = "", .least = 10});
  Table table(std::move(columns));
  for (const SweepRow& row : rows) {
    const bool possible = row.reason.empty();
    std::vector<std::string> cells;
    for (const auto& [flag, value] : row.swept) {
      cells.push_back(value);
    }
    cells.push_back(possible ? with_commas(row.per_rank.calls) : "-");
    for (const CommKind kind : kinds) {
      cells.push_back(possible ? to_text(message_of(row, kind)) : "-");
    }
    cells.push_back(possible ? to_text(row.per_rank.wire) : "-");
    cells.push_back(!head.by_node ? "" : possible ? to_text(row.inter_node_per_rank) : "-");
    cells.push_back(possible ? to_text(row.aggregate_wire) : "-");
    const bool has_work = possible && row.sequences > 0;
    cells.push_back(has_work ? with_commas(row.sequences) : "");
    cells.push_back(has_work ? to_text(Bytes{row.aggregate_wire.value / row.sequences}) : "");
    cells.push_back(possible && !row.unverified.empty() ? "unverified" : row.reason);
    table.add(std::move(cells));
  }
  return wrapped(head_text(head, rows), style) + table.text_with_hidden(style);
}

Json sweep_json(const SweepHead& head, const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    Json json = {{"flags", flags_json(row)}};
    if (!row.reason.empty()) {
      json["reason"] = row.reason;
      list.push_back(std::move(json));
      continue;
    }
    Json ops = Json::object();
    for (const auto& [kind, message] : row.message_per_rank) {
      ops[std::string(name_of(kind))] = message.value;
    }
    json["framework"] = row.framework;
    json["framework_version"] = row.framework_version;
    json["verified"] = row.unverified.empty();
    json["unverified"] = row.unverified;
    json["per_rank"] = {{"calls", row.per_rank.calls},
                        {"message_bytes", row.per_rank.message.value},
                        {"message_bytes_by_op", ops},
                        {"wire_bytes", row.per_rank.wire.value}};
    if (head.by_node) {
      json["per_rank"]["inter_node_wire_bytes"] = row.inter_node_per_rank.value;
    }
    json["aggregate"] = {{"wire_bytes", row.aggregate_wire.value}};
    if (row.sequences > 0) {
      json["sequences_per_iteration"] = row.sequences;
      json["aggregate"]["wire_bytes_per_sequence"] = wire_per_sequence_json(row);
    }
    list.push_back(std::move(json));
  }
  return {{"schema", "commlens.predict_sweep/1"},
          {"model", {{"name", head.model}}},
          {"framework", shared_json(rows, &SweepRow::framework)},
          {"framework_version", shared_json(rows, &SweepRow::framework_version)},
          {"iteration", head.iteration},
          {"accounting", head.accounting},
          {"rank", head.rank},
          {"rows", list}};
}

std::string sweep_csv(const SweepHead& head, const std::vector<SweepRow>& rows) {
  const std::set<CommKind> kinds = kinds_in(rows);
  const std::size_t first = sweeps_framework(rows) ? 1 : 0;  // that column stands further right
  std::vector<std::string> titles;
  for (std::size_t at = first; at < rows.front().swept.size(); ++at) {
    titles.push_back(bare(rows.front().swept[at].first));
  }
  titles.emplace_back("calls_per_rank");
  for (const CommKind kind : kinds) {
    titles.push_back(fmt::format("{}_message_bytes_per_rank", name_of(kind)));
  }
  titles.emplace_back("wire_bytes_per_rank");
  if (head.by_node) {
    titles.emplace_back("inter_node_wire_bytes_per_rank");
  }
  titles.insert(titles.end(), {"aggregate_wire_bytes", "model", "framework", "framework_version", "verified",
                               "reason", "sequences_per_iteration", "aggregate_wire_bytes_per_sequence"});
  std::string text = csv_line(titles);
  for (const SweepRow& row : rows) {
    const bool possible = row.reason.empty();
    const auto cell = [&](std::int64_t value) { return possible ? std::to_string(value) : std::string(); };
    std::vector<std::string> cells;
    for (std::size_t at = first; at < row.swept.size(); ++at) {
      cells.push_back(row.swept[at].second);
    }
    cells.push_back(cell(row.per_rank.calls));
    for (const CommKind kind : kinds) {
      cells.push_back(cell(message_of(row, kind).value));
    }
    cells.push_back(cell(row.per_rank.wire.value));
    if (head.by_node) {
      cells.push_back(cell(row.inter_node_per_rank.value));
    }
    cells.push_back(cell(row.aggregate_wire.value));
    const std::string_view verified = !possible ? "" : row.unverified.empty() ? "true" : "false";
    cells.insert(cells.end(), {head.model, row.framework, row.framework_version, std::string(verified),
                               possible ? fmt::format("{}", fmt::join(row.unverified, "; ")) : row.reason});
    const bool has_work = possible && row.sequences > 0;
    cells.push_back(has_work ? std::to_string(row.sequences) : "");
    cells.push_back(has_work ? wire_per_sequence_json(row).dump() : "");
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
