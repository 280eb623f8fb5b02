#include "commlens/report/breakdown_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

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
                      row.match, row.calls, row.wire_inter_node, row.rule, row.tag, row.name, row.site);
  };
  return parts(a) == parts(b);
}

/// Merged with the ranges that it continues.
void add(const RankRange& range, std::vector<RankRange>& ranges) {
  ranges.push_back(range);
  while (ranges.size() > 1) {
    const auto both = merged_range(ranges[ranges.size() - 2], ranges.back());
    if (!both) {
      return;
    }
    ranges.pop_back();
    ranges.back() = *both;
  }
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
    } else {
      add(block.ranks.front(), twin->ranks);
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
  for (const std::string& part :
       {trace.tags.text(row.tag), trace.names.text(row.name), trace.names.text(row.site)}) {
    if (!part.empty() && row.kind != CommKind::other) {
      text += (text.empty() ? "" : ": ") + part;
    }
  }
  return rule.verified ? text : text + " (unverified)";
}

std::string size_text(const BreakdownRow& row) {
  const std::string size = to_text(row.message);
  return row.match != Match::exact ? "~" + size
         : row.rounding.value > 0  ? size + " ±" + to_text(row.rounding)
                                   : size;
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

std::vector<Column> breakdown_columns() {
  const auto json_only = [](std::string key, bool is_optional) {
    return Column{.key = std::move(key), .in_text = false, .in_csv = false, .optional = is_optional};
  };
  const auto csv_only = [](std::string key) {
    return Column{.key = std::move(key), .in_text = false, .in_json = false};
  };
  return columns({json_only("ranks", false),
                  csv_only("first_rank"),
                  csv_only("last_rank"),
                  "op",
                  "axis",
                  "group_size",
                  "phase",
                  "dtype",
                  "message_bytes",
                  "calls",
                  "total_message_bytes",
                  "wire_bytes_per_rank",
                  "time_s",
                  "low_s",
                  "high_s",
                  Column{.key = "provenance", .title = "time by"},
                  Column{.key = "rule", .title = "why", .optional = true},
                  Column{.key = "tag", .optional = true},
                  Column{.key = "name", .optional = true},
                  "wire_inter_node_bytes_per_rank",
                  "wire_intra_node_bytes_per_rank",
                  "rank_count",
                  json_only("rank_block", true),
                  json_only("rank_block_every", true),
                  Column{.key = "rounding_bytes", .optional = true},
                  Column{.key = "source", .optional = true},
                  "verified",
                  "data_dependent",
                  "no_traffic"});
}

Table breakdown_table(const Trace& trace, const std::vector<BreakdownRow>& rows) {
  Table table(breakdown_columns());
  const auto if_any = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
  for (const BreakdownRow& row : rows) {
    const Rule& rule = trace.rule(row.rule);
    const bool has_gaps = !row.ranks.is_gapless();  // then which ranks between the first and the last
    table.add({std::vector<std::int64_t>{row.ranks.first.value, row.ranks.last.value},
               row.ranks.first,
               row.ranks.last,
               Cell(name_of(row.kind)).shown(op_text(trace, row.kind, row.name)),
               name_of(row.axis),
               Cell(row.group_size).shown(group_text(row.kind, row.axis, row.group_size)),
               name_of(row.phase),
               name_of(row.dtype),
               Cell(row.message).shown(size_text(row)),
               row.calls,
               row.total_message,
               row.no_traffic() ? Cell(row.wire_per_rank).shown("no traffic") : Cell(row.wire_per_rank),
               row.time ? Cell(row.time->seconds) : Cell(),
               row.time ? Cell(row.time->low) : Cell(),
               row.time ? Cell(row.time->high) : Cell(),
               row.time ? Cell(row.time->provenance) : Cell(),
               if_any(rule.name).shown(why_text(trace, row)),
               if_any(trace.tags.text(row.tag)),
               if_any(trace.names.text(row.name)),
               row.wire_inter_node,
               row.wire_per_rank - row.wire_inter_node,
               row.ranks.count(),
               has_gaps ? Cell(row.ranks.block) : Cell(),
               has_gaps ? Cell(row.ranks.every) : Cell(),
               row.rounding.value > 0 ? Cell(row.rounding) : Cell(),
               if_any(rule.source),
               rule.verified,
               row.match != Match::exact,
               row.no_traffic()});
  }
  return table;
}

Table breakdown_table(const Trace& trace, const std::vector<BreakdownRow>& rows, bool by_node) {
  Table table = breakdown_table(trace, rows);
  const bool has_times =
      std::any_of(rows.begin(), rows.end(), [](const BreakdownRow& row) { return row.time.has_value(); });
  if (!has_times) {
    table.remove({"time_s", "low_s", "high_s", "provenance"});
  }
  return by_node ? table : table.remove({"wire_inter_node_bytes_per_rank", "wire_intra_node_bytes_per_rank"});
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
  return named ? shown_foreign(trace.names.text(name), k_widest_name) : std::string(name_of(kind));
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
    const Table table =
        breakdown_table(trace, block.rows, by_node)
            .picked({"op", Column{.key = "group_size", .align = Column::Align::left, .drop_first = 4},
                     Column{.key = "phase", .drop_first = 3}, Column{.key = "dtype", .drop_first = 2},
                     "message_bytes", "calls", Column{.key = "total_message_bytes", .drop_first = 1},
                     "wire_bytes_per_rank", "wire_inter_node_bytes_per_rank",
                     Column{.key = "time_s", .title = "a call takes"},
                     Column{.key = "low_s", .drop_first = 5}, Column{.key = "high_s", .drop_first = 5},
                     Column{.key = "provenance", .title = "time by", .drop_first = 4, .least = 12},
                     Column{.key = "rule", .least = 16}});
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
  return rows_json(breakdown_table(trace, rows, by_node));
}

std::string breakdown_csv(const Trace& trace, const std::vector<BreakdownRow>& rows, bool by_node) {
  return breakdown_table(trace, rows, by_node).csv();
}

}  // namespace commlens
