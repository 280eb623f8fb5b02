#include "commlens/cli/sweep.hpp"

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

/// Versions that the possible combinations use, each once.
std::vector<std::string> versions_in(const std::vector<SweepRow>& rows) {
  std::vector<std::string> versions;
  for (const SweepRow& row : rows) {
    const bool known = std::find(versions.begin(), versions.end(), row.framework_version) != versions.end();
    if (row.reason.empty() && !known) {
      versions.push_back(row.framework_version);
    }
  }
  return versions;
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
  return fmt::format("{}, rules of {} {}, {} iteration; {} bytes of rank {} by op\n", head.model,
                     head.framework, fmt::join(versions_in(rows), " or "), head.iteration,
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
    list.push_back(std::move(json));
  }
  const std::vector<std::string> versions = versions_in(rows);
  return {{"schema", "commlens.predict_sweep/1"},
          {"model", {{"name", head.model}}},
          {"framework", head.framework},
          {"framework_version", versions.size() == 1 ? Json(versions.front()) : Json()},
          {"iteration", head.iteration},
          {"accounting", head.accounting},
          {"rank", head.rank},
          {"rows", list}};
}

std::string sweep_csv(const SweepHead& head, const std::vector<SweepRow>& rows) {
  const std::set<CommKind> kinds = kinds_in(rows);
  std::vector<std::string> titles;
  for (const auto& [flag, value] : rows.front().swept) {
    titles.push_back(bare(flag));
  }
  titles.emplace_back("calls_per_rank");
  for (const CommKind kind : kinds) {
    titles.push_back(fmt::format("{}_message_bytes_per_rank", name_of(kind)));
  }
  titles.emplace_back("wire_bytes_per_rank");
  if (head.by_node) {
    titles.emplace_back("inter_node_wire_bytes_per_rank");
  }
  titles.insert(titles.end(),
                {"aggregate_wire_bytes", "model", "framework", "framework_version", "verified", "reason"});
  std::string text = csv_line(titles);
  for (const SweepRow& row : rows) {
    const bool possible = row.reason.empty();
    const auto cell = [&](std::int64_t value) { return possible ? std::to_string(value) : std::string(); };
    std::vector<std::string> cells;
    for (const auto& [flag, value] : row.swept) {
      cells.push_back(value);
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
    cells.insert(cells.end(), {head.model, head.framework, row.framework_version, std::string(verified),
                               possible ? fmt::format("{}", fmt::join(row.unverified, "; ")) : row.reason});
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
