#include "commlens/formats/deepspeed_log/import.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/deepspeed_log/lines.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::deepspeed_log {
namespace {

constexpr std::int64_t k_most_calls = 50'000'000;

struct Row {
  LoggedOp op;
  PrintedSize size;
  std::int64_t count = 0;
};

struct Table {
  TableHeader header;
  std::vector<Row> rows;
  LoggedOp op;  // whose rows come next; no name before the first
  bool op_has_rows = true;
  bool is_cut_off = false;
};

/// Collects tables and verbose lines of a log.
class LogReader {
 public:
  void take(std::string_view line, bool is_whole) {
    if (const auto verbose = verbose_line(line)) {
      verbose_.push_back({verbose->op, verbose->size, 1});
      return;
    }
    if (auto header = table_header(line)) {
      close();
      tables_.push_back({std::move(*header), {}, {}, true, false});
      is_open_ = true;
      return;
    }
    if (is_open_) {
      take_table_line(tables_.back(), line, is_whole);
    }
  }

  Result<Trace> finish(const std::string& origin);

 private:
  static void take_table_line(Table& table, std::string_view line, bool is_whole) {
    if (const auto row = table_row(line)) {
      if (!table.op.name.empty()) {
        table.rows.push_back({table.op, row->size, row->count});
      }
      table.op_has_rows = true;
      return;
    }
    std::optional<LoggedOp> op = op_in(table.header.prefix, line);
    const bool is_known = op && deepspeed_kind(op->name).has_value();
    if (op && (is_known || table.op_has_rows || !deepspeed_kind(table.op.name))) {
      table.op = std::move(*op);
      table.op_has_rows = false;
    }
    // A log of a killed job may end in the middle of a row.
    table.is_cut_off = !is_whole && line.find_first_not_of(" \t\r") != std::string_view::npos;
  }

  /// The op that a line names, with or without what the launcher puts before each line.
  static std::optional<LoggedOp> op_in(const std::string& prefix, std::string_view line) {
    const bool has_prefix =
        !prefix.empty() && line.size() > prefix.size() && line[prefix.size() - 1] == prefix.back();
    if (has_prefix) {
      if (auto op = logged_op(line.substr(prefix.size()))) {
        return op;
      }
    }
    return logged_op(line);
  }

  void close() {
    if (is_open_) {
      Table& table = tables_.back();
      table.is_cut_off =
          table.is_cut_off || (!table.op_has_rows && deepspeed_kind(table.op.name).has_value());
    }
    is_open_ = false;
  }

  /// The last complete table, else the last that has rows; tables of stragglers only where there is no other.
  const Table* chosen() const {
    const Table* best = nullptr;
    int best_worth = 0;
    for (const Table& table : tables_) {
      const int worth =
          table.rows.empty() ? 0 : (table.header.is_of_stragglers ? 1 : 3) + (table.is_cut_off ? 0 : 1);
      if (worth > 0 && worth >= best_worth) {
        best = &table;
        best_worth = worth;
      }
    }
    return best;
  }

  void count_skipped(const Table* used, Provenance& provenance) const;

  std::vector<Table> tables_;
  std::vector<Row> verbose_;
  bool is_open_ = false;
};

void LogReader::count_skipped(const Table* used, Provenance& provenance) const {
  std::int64_t earlier = 0;
  std::int64_t cut_off = 0;
  std::int64_t stragglers = 0;
  for (const Table& table : tables_) {
    if (&table == used || table.rows.empty()) {
      continue;
    }
    (table.header.is_of_stragglers ? stragglers : table.is_cut_off ? cut_off : earlier) += 1;
  }
  const auto add = [&](const char* reason, std::int64_t count) {
    if (count > 0) {
      provenance.skipped[reason] = count;
    }
  };
  add("summary table before the last (the logger never starts anew)", earlier);
  add("summary table that is cut off", cut_off);
  add("straggler table (repeats the counts)", stragglers);
  if (used != nullptr) {
    add("verbose line (the summary table counts its call)", static_cast<std::int64_t>(verbose_.size()));
    add("end of the summary table (the log is cut off)", used->is_cut_off ? 1 : 0);
  }
}

/// Puts the printed size where docs/formats/deepspeed-log.md says the logger takes it from.
CallRecord record_of(const Row& row) {
  CallRecord record;
  record.rank = 0;
  record.iteration_unknown = true;
  const CommKind kind = deepspeed_kind(row.op.name).value_or(CommKind::other);
  record.op = kind;
  record.dtype = DType::uint8;
  record.group.is_given = true;
  record.root_unknown = true;
  record.rounding_bytes = row.size.rounding.value;
  const bool is_input_alone =
      kind == CommKind::all_gather || kind == CommKind::reduce_scatter || kind == CommKind::send;
  record.input_bytes = kind == CommKind::recv ? 0 : row.size.size.value;
  record.output_bytes = is_input_alone ? 0 : row.size.size.value;
  record.name = kind == CommKind::other ? valid_utf8(row.op.name) : "";
  record.site = valid_utf8(row.op.caller);
  return record;
}

Result<Trace> LogReader::finish(const std::string& origin) {
  close();
  const Table* const table = chosen();
  const std::vector<Row>& rows = table != nullptr ? table->rows : verbose_;
  if (rows.empty()) {
    return failure(
        fmt::format("{}: no row of DeepSpeed's comms logger; call deepspeed.comm.log_summary() at the end "
                    "of training",
                    origin));
  }
  CallBuilder builder("deepspeed comms logger", origin);
  builder.provenance().accounting = Accounting::comms_logger;
  builder.provenance().framework = "deepspeed";
  count_skipped(table, builder.provenance());
  std::int64_t calls = 0;
  for (const Row& row : rows) {
    if (row.count > k_most_calls - calls) {
      return failure(
          fmt::format("{}: the log counts more than {} calls; is a count damaged?", origin, k_most_calls));
    }
    calls += row.count;
    if (!builder.add_times(record_of(row), row.count)) {
      builder.provenance().skip(std::string(k_skipped_impossible), row.count);
    }
  }
  return builder.finish();
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  const std::string name = source->name();
  LineReader lines(std::move(*source));
  LogReader log;
  const Result<void> read = each_line(lines, [&](std::string_view line) {
    // A progress bar writes "\r" and is written over by what follows.
    while (!line.empty()) {
      const std::string_view part = line.substr(0, line.find('\r'));
      line.remove_prefix(std::min(part.size() + 1, line.size()));
      log.take(part, lines.line_is_whole() || !line.empty());
    }
  });
  return read ? log.finish(name) : tl::unexpected(read.error());
}

bool sniff(const std::filesystem::path& path, std::string_view head) {
  return any_line(path, head, k_furthest_in_log,
                  [](std::string_view line) { return table_header(line) || verbose_line(line); });
}

}  // namespace commlens::formats::deepspeed_log
