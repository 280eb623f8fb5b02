#include "commlens/transport/transport_table.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/csv.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 6> k_columns{"op",    "min_bytes", "max_bytes",
                                                    "ranks", "transport", "algorithm"};
constexpr std::string_view k_optional_column = "algorithm";
constexpr std::int64_t k_most_file = 1 << 20;
constexpr std::size_t k_most_entries = 4096;  // each is compared with those before it, and with every call

/// The text with comments as empty lines, so that lines keep their numbers.
std::string without_comments(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.front() != '#') {
      rest += text.substr(0, end);
    }
    rest += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rest;
}

/// A kind that can be sent to a transport by its size.
std::optional<CommKind> routed_kind(std::string_view name) {
  const std::optional<CommKind> kind = comm_kind_from(name);
  const bool is_routed = kind && *kind != CommKind::other && *kind != CommKind::recv;
  return is_routed ? kind : std::nullopt;
}

Result<Bytes> size_of_cell(const std::string& cell, Bytes otherwise) {
  if (cell.empty()) {
    return otherwise;
  }
  const Result<std::int64_t> number = parse_integer(cell);
  const Result<Bytes> bytes = number ? Result<Bytes>(Bytes{*number}) : parse_bytes(cell);
  return bytes && bytes->value >= 0
             ? bytes
             : failure(fmt::format("{} is no size; write bytes, or a size such as 64KiB", cell));
}

bool is_covered(const TransportEntry& entry, const TransportEntry& by) {
  return entry.kind == by.kind && (by.ranks == 0 || by.ranks == entry.ranks) && by.least <= entry.least &&
         by.most >= entry.most;
}

/// A row's entry; fails without the line.
Result<TransportEntry> entry_of_row(const CsvTable& csv, const CsvTable::Row& row) {
  if (row.cells.size() != csv.columns.size()) {
    return failure(fmt::format("{} values for {} columns", row.cells.size(), csv.columns.size()));
  }
  const std::optional<CommKind> kind = routed_kind(csv.cell(row, "op"));
  if (!kind) {
    return failure(fmt::format("{} is no op; write one such as all_reduce, or send for messages both ways",
                               csv.cell(row, "op")));
  }
  TransportEntry entry{.kind = *kind,
                       .transport = csv.cell(row, "transport"),
                       .algorithm = csv.has(k_optional_column) ? csv.cell(row, k_optional_column) : ""};
  const Result<Bytes> least = size_of_cell(csv.cell(row, "min_bytes"), entry.least);
  const Result<Bytes> most = size_of_cell(csv.cell(row, "max_bytes"), entry.most);
  if (!least || !most) {
    return tl::unexpected(least ? most.error() : least.error());
  }
  entry.least = *least;
  entry.most = *most;
  if (entry.least > entry.most) {
    return failure(fmt::format("min_bytes {} are more than max_bytes {}", least->value, most->value));
  }
  const std::string ranks = csv.cell(row, "ranks");
  const Result<std::int64_t> count = ranks.empty() ? Result<std::int64_t>(0) : parse_integer(ranks);
  if (!count || *count < 0 || (*count < 2 && !ranks.empty())) {
    return failure(fmt::format("{} is no number of ranks; write 2 or more, or nothing for any", ranks));
  }
  entry.ranks = *count;
  return entry.transport.empty() ? failure("no transport; write one, such as mpi")
                                 : Result<TransportEntry>(std::move(entry));
}

Result<void> check_columns(const CsvTable& csv) {
  for (const auto& [name, place] : csv.columns) {
    if (std::find(k_columns.begin(), k_columns.end(), name) == k_columns.end()) {
      return failure(
          fmt::format("line 1: there is no column {}; the columns are {}", name, fmt::join(k_columns, ", ")));
    }
  }
  for (const std::string_view name : k_columns) {
    if (name != k_optional_column && !csv.has(name)) {
      return failure(
          fmt::format("no column {}; the first line names the columns: {}", name, fmt::join(k_columns, ",")));
    }
  }
  return {};
}

/// Adds the row's entry; fails without the line.
Result<void> add_row(TransportTable& table, const CsvTable& csv, const CsvTable::Row& row) {
  return entry_of_row(csv, row).and_then([&](TransportEntry entry) -> Result<void> {
    const auto earlier = std::find_if(table.entries.begin(), table.entries.end(),
                                      [&](const TransportEntry& one) { return is_covered(entry, one); });
    if (earlier != table.entries.end()) {
      return failure(
          fmt::format("no call is left to this entry: {} comes first and takes them all; put it below, or "
                      "leave it out",
                      table.where(static_cast<std::size_t>(earlier - table.entries.begin()))));
    }
    table.entries.push_back(std::move(entry));
    table.lines.push_back(row.line);
    return {};
  });
}

}  // namespace

std::size_t TransportTable::place_of(CommKind kind, Bytes message, std::int64_t ranks) const {
  const CommKind written = kind == CommKind::recv ? CommKind::send : kind;
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const TransportEntry& entry) {
    return entry.kind == written && (entry.ranks == 0 || entry.ranks == ranks) && entry.least <= message &&
           message <= entry.most;
  });
  return static_cast<std::size_t>(found - entries.begin());
}

std::string TransportTable::where(std::size_t place) const {
  return lines.empty() ? fmt::format("entry {}", place + 1) : fmt::format("line {}", lines.at(place));
}

Result<TransportTable> parse_transport_table(std::string_view text) {
  return parse_csv(without_comments(text)).and_then([](const CsvTable& csv) -> Result<TransportTable> {
    if (const Result<void> known = check_columns(csv); !known) {
      return tl::unexpected(known.error());
    }
    if (csv.rows.size() > k_most_entries) {
      return failure(fmt::format("{} entries; a table has at most {}", csv.rows.size(), k_most_entries));
    }
    TransportTable table;
    for (const CsvTable::Row& row : csv.rows) {
      if (const Result<void> added = add_row(table, csv, row); !added) {
        return failure(fmt::format("line {}: {}", row.line, added.error().message));
      }
    }
    return table;
  });
}

Result<TransportTable> read_transport_table(const std::filesystem::path& file) {
  return read_text_file(file, k_most_file).and_then([&](const std::string& text) {
    return parse_transport_table(text).map_error(
        [&](const Error& error) { return Error{fmt::format("{}: {}", file.string(), error.message)}; });
  });
}

std::string transport_table_text(const TransportTable& table, std::string_view comment) {
  std::string text;
  while (!comment.empty()) {
    const std::size_t end = std::min(comment.find('\n'), comment.size());
    text += fmt::format("# {}\n", comment.substr(0, end));
    comment.remove_prefix(std::min(end + 1, comment.size()));
  }
  text += fmt::format("{}\n", fmt::join(k_columns, ","));
  for (const TransportEntry& entry : table.entries) {
    const bool is_limited = entry.most != TransportEntry().most;
    text += csv_line(std::vector<std::string>{
        std::string(name_of(entry.kind)), fmt::format("{}", entry.least.value),
        is_limited ? fmt::format("{}", entry.most.value) : "",
        entry.ranks == 0 ? "" : fmt::format("{}", entry.ranks), entry.transport, entry.algorithm});
  }
  return text;
}

}  // namespace commlens
