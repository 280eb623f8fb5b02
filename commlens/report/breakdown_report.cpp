#include "commlens/report/breakdown_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/csv.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// The rows of one class of ranks, in a row in the table of all rows.
struct Block {
  std::vector<RankRange> ranks;
  std::vector<BreakdownRow> rows;
};

bool same_but_ranks(const BreakdownRow& a, const BreakdownRow& b) {
  const auto parts = [](const BreakdownRow& row) {
    return std::tuple(row.kind, row.axis, row.group_size, row.phase, row.dtype, row.message, row.rounding,
                      row.data_dependent, row.calls, row.wire_inter_node, row.rule, row.tag, row.name);
  };
  return parts(a) == parts(b);
}

std::vector<Block> blocks_of(const std::vector<BreakdownRow>& rows) {
  std::vector<Block> blocks;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t end = first;
    while (end < rows.size() && rows[end].ranks == rows[first].ranks) {
      ++end;
    }
    Block block{
        {rows[first].ranks},
        {rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin() + static_cast<std::ptrdiff_t>(end)}};
    first = end;
    const auto twin = std::find_if(blocks.begin(), blocks.end(), [&](const Block& other) {
      return std::equal(other.rows.begin(), other.rows.end(), block.rows.begin(), block.rows.end(),
                        same_but_ranks);
    });
    if (twin == blocks.end()) {
      blocks.push_back(std::move(block));
    } else if (const auto both = merged_range(twin->ranks.back(), block.ranks.front()); both) {
      twin->ranks.back() = *both;
    } else {
      twin->ranks.push_back(block.ranks.front());
    }
  }
  return blocks;
}

std::string ranks_title(const std::vector<RankRange>& ranges) {
  constexpr std::size_t most = 6;  // ranges named one by one
  std::string text;
  std::int64_t count = 0;
  for (std::size_t at = 0; at < ranges.size(); ++at) {
    count += ranges[at].count();
    if (at < most) {
      text += (at == 0 ? "" : ", ") + to_text(ranges[at]);
    }
  }
  const std::string more = ranges.size() > most ? ", …" : "";
  return count == 1 ? fmt::format("rank {}", text)
                    : fmt::format("each of ranks {}{} ({} ranks)", text, more, with_commas(count));
}

std::string why_text(const Trace& trace, const BreakdownRow& row) {
  const Rule& rule = trace.rule(row.rule);
  std::string text = rule.name;
  for (const std::string& part : {trace.tags.text(row.tag), trace.names.text(row.name)}) {
    if (!part.empty() && row.kind != CommKind::other) {
      text += (text.empty() ? "" : ": ") + part;
    }
  }
  return rule.verified ? text : text + " (unverified)";
}

std::string size_text(const BreakdownRow& row) {
  const std::string size = to_text(row.message);
  return row.data_dependent       ? "~" + size
         : row.rounding.value > 0 ? size + " ±" + to_text(row.rounding)
                                  : size;
}

std::string wire_text(const BreakdownRow& row) {
  return row.no_traffic() ? "no traffic" : to_text(row.wire_per_rank);
}

std::string totals_line(const Block& block, bool by_node, Accounting accounting) {
  const Totals totals = total_per_rank(block.rows, block.rows.front().ranks);
  std::string line =
      fmt::format("  one rank: {} call{}, {} {} bytes, {} wire bytes", with_commas(totals.calls),
                  totals.calls == 1 ? "" : "s", to_text(totals.message),
                  accounting == Accounting::messages ? "message" : "logger", to_text(totals.wire));
  if (by_node) {
    Bytes inter;
    for (const BreakdownRow& row : block.rows) {
      inter += row.wire_inter_node;
    }
    line += fmt::format(" ({} between nodes)", to_text(inter));
  }
  return line + "\n";
}

}  // namespace

std::string to_text(RankRange ranks) {
  constexpr std::int64_t most = 4;  // blocks named one by one
  const std::vector<RankRange> pieces =
      pieces_of(first_ranks(ranks, most * std::max<std::int64_t>(ranks.block, 1)));
  if (ranks.is_gapless()) {
    return ranks.count() == 1 ? fmt::format("{}", ranks.first.value)
                              : fmt::format("{}-{}", ranks.first.value, ranks.last.value);
  }
  std::string text;
  for (const RankRange& piece : pieces) {
    text += (text.empty() ? "" : ", ") + to_text(piece);
  }
  const RankRange end{Rank{ranks.last.value - ranks.block + 1}, ranks.last};
  return pieces.back() == end ? text : fmt::format("{}, … {}", text, to_text(end));
}

std::string op_text(const Trace& trace, CommKind kind, NameId name) {
  const bool named = kind == CommKind::other && name != NameId{};
  return named ? trace.names.text(name) : std::string(name_of(kind));
}

std::string group_text(CommKind kind, Axis axis, std::int64_t size) {
  if (axis == Axis::self) {
    return "self";
  }
  if (is_point_to_point(kind)) {
    return axis == Axis::unknown ? "pair" : std::string(name_of(axis));
  }
  if (size <= 0) {
    return axis == Axis::unknown ? "" : std::string(name_of(axis));
  }
  return axis == Axis::unknown ? fmt::format("x{}", size) : fmt::format("{} x{}", name_of(axis), size);
}

std::string group_text(const Trace& trace, const CommOp& op) {
  const std::string text = group_text(op.kind, trace.groups.axis(op.group), trace.groups.size(op.group));
  const std::int64_t ordinal = trace.groups.ordinal(op.group);
  return ordinal > 1 ? fmt::format("{} #{}", text, ordinal) : text;
}

std::string breakdown_text(const Trace& trace, const std::vector<BreakdownRow>& rows, const TextStyle& style,
                           Accounting accounting) {
  const bool by_node = std::any_of(rows.begin(), rows.end(),
                                   [](const BreakdownRow& row) { return row.wire_inter_node.value > 0; });
  std::string text;
  std::vector<std::string> hidden;
  for (const Block& block : blocks_of(rows)) {
    Table table({{.title = "op"},
                 {.title = "group", .drop_first = 4},
                 {.title = "phase", .drop_first = 3},
                 {.title = "dtype", .drop_first = 2},
                 {.title = "message", .align = Column::Align::right},
                 {.title = "calls", .align = Column::Align::right},
                 {.title = "total", .align = Column::Align::right, .drop_first = 1},
                 {.title = "wire/rank", .align = Column::Align::right},
                 {.title = "inter-node", .align = Column::Align::right},
                 {.title = "why", .least = 16}});
    for (const BreakdownRow& row : block.rows) {
      table.add({op_text(trace, row.kind, row.name), group_text(row.kind, row.axis, row.group_size),
                 std::string(name_of(row.phase)), std::string(name_of(row.dtype)), size_text(row),
                 with_commas(row.calls), to_text(row.total_message), wire_text(row),
                 by_node ? to_text(row.wire_inter_node) : "", why_text(trace, row)});
    }
    text += in_colour(ranks_title(block.ranks), Colour::bold, style) + "\n" + table.text(style, 2) +
            totals_line(block, by_node, accounting);
    for (const std::string& title : table.hidden(style, 2)) {
      if (std::find(hidden.begin(), hidden.end(), title) == hidden.end()) {
        hidden.push_back(title);
      }
    }
  }
  return text + Table::hidden_text(hidden, style);
}

Json breakdown_json(const Trace& trace, const std::vector<BreakdownRow>& rows, bool by_node) {
  Json list = Json::array();
  for (const BreakdownRow& row : rows) {
    const Rule& rule = trace.rule(row.rule);
    Json json = {{"ranks", {row.ranks.first.value, row.ranks.last.value}},
                 {"rank_count", row.ranks.count()},
                 {"op", name_of(row.kind)},
                 {"axis", name_of(row.axis)},
                 {"group_size", row.group_size},
                 {"phase", name_of(row.phase)},
                 {"dtype", name_of(row.dtype)},
                 {"message_bytes", row.message.value},
                 {"calls", row.calls},
                 {"total_message_bytes", row.total_message.value},
                 {"wire_bytes_per_rank", row.wire_per_rank.value}};
    if (!row.ranks.is_gapless()) {  // which of the ranks between the first and the last
      json["rank_block"] = row.ranks.block;
      json["rank_block_every"] = row.ranks.every;
    }
    if (by_node) {
      json["wire_inter_node_bytes_per_rank"] = row.wire_inter_node.value;
      json["wire_intra_node_bytes_per_rank"] = row.wire_per_rank.value - row.wire_inter_node.value;
    }
    if (row.rounding.value > 0) {
      json["rounding_bytes"] = row.rounding.value;
    }
    for (const auto& [key, text] :
         {std::pair("rule", rule.name), std::pair("source", rule.source),
          std::pair("tag", trace.tags.text(row.tag)), std::pair("name", trace.names.text(row.name))}) {
      if (!text.empty()) {
        json[key] = text;
      }
    }
    json["verified"] = rule.verified;
    json["data_dependent"] = row.data_dependent;
    json["no_traffic"] = row.no_traffic();
    list.push_back(std::move(json));
  }
  return list;
}

std::string breakdown_csv(const Trace& trace, const std::vector<BreakdownRow>& rows, bool by_node) {
  std::vector<std::string> titles = {"first_rank",
                                     "last_rank",
                                     "op",
                                     "axis",
                                     "group_size",
                                     "phase",
                                     "dtype",
                                     "message_bytes",
                                     "calls",
                                     "total_message_bytes",
                                     "wire_bytes_per_rank",
                                     "rule",
                                     "tag",
                                     "name"};
  if (by_node) {
    titles.emplace_back("wire_inter_node_bytes_per_rank");
  }
  std::string text = csv_line(titles);
  for (const BreakdownRow& row : rows) {
    std::vector<std::string> cells = {std::to_string(row.ranks.first.value),
                                      std::to_string(row.ranks.last.value),
                                      std::string(name_of(row.kind)),
                                      std::string(name_of(row.axis)),
                                      std::to_string(row.group_size),
                                      std::string(name_of(row.phase)),
                                      std::string(name_of(row.dtype)),
                                      std::to_string(row.message.value),
                                      std::to_string(row.calls),
                                      std::to_string(row.total_message.value),
                                      std::to_string(row.wire_per_rank.value),
                                      trace.rule(row.rule).name,
                                      trace.tags.text(row.tag),
                                      trace.names.text(row.name)};
    if (by_node) {
      cells.push_back(std::to_string(row.wire_inter_node.value));
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
