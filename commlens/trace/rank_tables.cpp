#include "commlens/trace/rank_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/table_rows.hpp"

namespace commlens {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr JsonFields::Range k_any_count = {0, INT64_MAX};
constexpr JsonFields::Range k_any_time = {-(std::int64_t{1} << 61), std::int64_t{1} << 61};
constexpr JsonFields::Range k_any_wall = {0, std::int64_t{1} << 62};  // their difference fits beside a time

/// Reads rank-R.jsonl line by line.
class RankTablesReader {
 public:
  /// A file of `bytes` has no row of a higher number.
  RankTablesReader(Trace& tables, std::size_t bytes)
      : rows_(tables, fields_), most_rows_(static_cast<std::int64_t>(bytes / k_least_row)) {
    rows_.add_name("", "");
    rows_.add_tag("", "");
  }

  /// False when something is wrong; the reason is in error().
  bool read(std::string_view text) {
    ++line_;
    if (text.find('\0') != std::string_view::npos) {
      lose();
      return true;
    }
    const json line = parse(text);
    if (!fields_.error) {
      read_line(line, fmt::format("line {}", line_));
    }
    return !fields_.error;
  }
  /// A part of the file was lost.
  void lose() {
    ++damages_;
    rows_.set_damaged(most_rows_);
  }

  const std::optional<std::string>& error() const { return fields_.error; }

  RankTables take() {
    result_.ops = rows_.take_ops();
    result_.lost_lines = std::max(damages_, lost_rows_);
    return std::move(result_);
  }

 private:
  static constexpr std::size_t k_least_row = 8;  // bytes, {"tag":1}

  json parse(std::string_view text) {
    Result<json> line = parse_json(text);
    if (!line) {
      fields_.fail(fmt::format("line {}", line_), line.error().message);
      return {};
    }
    return std::move(*line);
  }

  void read_line(const json& line, const std::string& where) {
    if (line_ == 1) {
      read_opening(line, where);
    } else if (result_.closing) {
      fields_.fail(where, "comes after the closing line");
    } else if (read_row(line, where)) {
      return;
    } else if (const json* const aligned = fields_.find(line, where, "aligned", true)) {
      read_clock_point(*aligned, where);
    } else if (const json* const ending = fields_.find(line, where, "ending", true)) {
      fields_.number(*ending, where, "at_ns", k_any_time);
      result_.has_begun_to_end = true;
    } else if (const json* const closing = fields_.find(line, where, "closed", true)) {
      read_closing(*closing, where);
    } else {
      fields_.fail(
          where, "has none of \"tag\", \"name\", \"group\", \"op\", \"aligned\", \"ending\" and \"closed\"");
    }
  }

  /// False when the line is no row.
  bool read_row(const json& line, const std::string& where) {
    using Add = void (TableRows::*)(const json&, const std::string&);
    constexpr std::array<std::pair<const char*, Add>, 4> kinds = {{{"tag", &TableRows::add_tag},
                                                                   {"name", &TableRows::add_name},
                                                                   {"group", &TableRows::add_group},
                                                                   {"op", &TableRows::add_op}}};
    for (const auto& [kind, add] : kinds) {
      const json* const row = fields_.find(line, where, kind, true);
      if (row == nullptr) {
        continue;
      }
      if (is_placed(line, where, kind)) {
        (rows_.*add)(*row, where);
      }
      return true;
    }
    return false;
  }

  /// Whether the number of a row is known: what a line says, or how many there were before, unless some were
  /// lost.
  bool is_placed(const json& line, const std::string& where, const char* kind) {
    const auto before = static_cast<std::int64_t>(rows_.count(kind));
    if (!line.contains("row")) {
      lost_rows_ += damages_ > 0 ? 1 : 0;
      return damages_ == 0;
    }
    const std::int64_t number = fields_.number(line, where, "row", {before, std::max(before, most_rows_)});
    if (fields_.error) {
      return false;
    }
    if (number > before && damages_ == 0) {
      fields_.fail(where, fmt::format("is row {}, and row {} is missing", number, before));
      return false;
    }
    lost_rows_ += number - before;
    rows_.skip_to(kind, static_cast<std::size_t>(number));
    return true;
  }

  void read_opening(const json& line, const std::string& where) {
    const std::string schema = fields_.text(line, where, "schema");
    if (!fields_.error && schema != k_rank_schema && schema != k_old_rank_schema) {
      fields_.fail(where, fmt::format("\"schema\" is \"{}\", this version reads \"{}\"", schema.substr(0, 40),
                                      k_rank_schema));
    }
    result_.rank.emplace().value = fields_.number(line, where, "rank", {0, k_max_ranks - 1});
    if (const json* const process = fields_.find(line, where, "process", true)) {
      read_process(*process, where);
    }
    const json* const found = fields_.find(line, where, "clock", false);
    if (found == nullptr) {
      return;
    }
    RankClock& clock = result_.clock;
    clock.source = fields_.text(*found, where, "source");
    clock.boot = fields_.text(*found, where, "boot");
    clock.frequency_hz = fields_.number(*found, where, "frequency_hz", k_any_count);
    clock.rate_error_ppb = fields_.number(*found, where, "rate_error_ppb", k_any_count);
    clock.wall_offset = nanoseconds(fields_.number(*found, where, "wall_offset_ns", k_any_wall));
  }

  void read_process(const json& row, const std::string& where) {
    RankProcess& process = result_.process.emplace();
    process.host = fields_.text(row, where, "host");
    process.pid = fields_.number(row, where, "pid", k_any_count);
    process.start_ticks = fields_.number(row, where, "start_ticks", k_any_count);
    process.exe = fields_.text(row, where, "exe");
    if (row.contains("job_id")) {
      process.job_id = fields_.text(row, where, "job_id");
    }
    if (row.contains("local_rank")) {
      process.local_rank = fields_.number(row, where, "local_rank", k_any_count);
    }
  }

  void read_clock_point(const json& row, const std::string& where) {
    ClockPoint point;
    point.at = nanoseconds(fields_.number(row, where, "at_ns", k_any_time));
    point.offset = nanoseconds(fields_.number(row, where, "offset_ns", k_any_time));
    point.error = nanoseconds(fields_.number(row, where, "error_ns", {0, k_any_time.second}));
    if (!result_.aligned.empty() && point.at <= result_.aligned.back().at) {
      fields_.fail(where, "is a clock point that is no later than the one before");
    }
    result_.aligned.push_back(point);
  }

  void read_closing(const json& row, const std::string& where) {
    RankClosing& closing = result_.closing.emplace();
    closing.events = fields_.number(row, where, "events", k_any_count);
    closing.dropped = fields_.number(row, where, "dropped", k_any_count);
    closing.cost_per_call = nanoseconds(fields_.number(row, where, "cost_ns_per_call", k_any_count));
    closing.clock_drift = nanoseconds(fields_.number(row, where, "clock_drift_ns", k_any_time));
    const json* const skipped = fields_.find(row, where, "skipped", true);
    if (skipped == nullptr) {
      return;
    }
    for (const auto& [reason, calls] : skipped->items()) {
      closing.skipped[reason] = fields_.number(*skipped, where, reason.c_str(), {0, std::int64_t{1} << 40});
    }
  }

  JsonFields fields_;
  TableRows rows_;
  RankTables result_;
  int line_ = 0;
  std::int64_t most_rows_;
  std::int64_t damages_ = 0;
  std::int64_t lost_rows_ = 0;
};

/// How far the times of a rank must be moved to have the zero of the recording's first rank.
TimeShift shift_of(const RankTables& rank, RankClocks& clocks) {
  if (const std::optional<ClockAlignment> aligned = alignment_of(rank.aligned)) {
    return {aligned->offset, aligned->at, static_cast<double>(aligned->drift_ppb) * 1e-9};
  }
  if (!rank.rank) {
    return {};
  }
  const RankClock& clock = rank.clock;
  if (!clocks.base) {
    clocks.base = clock.wall_offset;
  }
  const auto [machine, is_new] = clocks.wall_offsets.try_emplace(clock.boot, clock.wall_offset);
  return {.offset = machine->second - *clocks.base};
}

bool is_near(nanoseconds time) {
  constexpr nanoseconds furthest(INT64_MAX / 2);
  return -furthest <= time && time <= furthest;
}

/// False when `shift` moves one of the times out of the range that a record may have.
bool can_move(const StreamSurvey& survey, const TimeShift& shift) {
  return !survey.has_times() || survey.timed == 0 ||
         (is_near(survey.first_issued) && is_near(survey.last_finished) &&
          is_near(survey.first_started + shift.of(survey.first_started)) &&
          is_near(survey.last_started + shift.of(survey.last_started)));
}

}  // namespace

std::optional<ClockAlignment> alignment_of(const std::vector<ClockPoint>& points) {
  if (points.empty()) {
    return std::nullopt;
  }
  const ClockPoint& first = points.front();
  const ClockPoint& last = points.back();
  ClockAlignment clock{.at = first.at, .offset = first.offset, .error = std::max(first.error, last.error)};
  const auto between = static_cast<double>((last.at - first.at).count());
  if (between > 0) {
    const auto change = static_cast<double>((last.offset - first.offset).count());
    clock.drift_ppb = std::llround(change / between * 1e9);
  }
  return clock;
}

Result<RankTables> read_rank_tables(const std::filesystem::path& file, Trace& tables) {
  const Result<std::string> text = read_text_file(file, k_largest_tables);
  if (!text) {
    return tl::unexpected(text.error());
  }
  RankTablesReader reader(tables, text->size());
  std::string_view rest = *text;
  if (rest.find_first_of(std::string_view("\n\0", 2)) == std::string_view::npos) {
    return failure(fmt::format("{}: has no whole line", file.string()));
  }
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    reader.read(rest.substr(0, end));
    if (const std::optional<std::string> wrong = reader.error()) {
      return failure(fmt::format("{}: {}", file.string(), *wrong));
    }
    rest.remove_prefix(end + 1);
  }
  if (rest.find('\0') != std::string_view::npos) {
    reader.lose();
  }
  return reader.take();
}

Result<void> check_rank(const std::filesystem::path& directory, const StreamEntry& entry,
                        const RankTables& tables) {
  if (tables.rank.value_or(entry.ranks.first) == entry.ranks.first) {
    return {};
  }
  return failure(fmt::format("{}: these are the tables of rank {}, the manifest wants those of rank {}",
                             (directory / entry.tables).string(), tables.rank->value,
                             entry.ranks.first.value));
}

Result<std::optional<OpenStream>> open_recorded_stream(const std::filesystem::path& directory,
                                                       const StreamEntry& entry, Trace& tables,
                                                       RankClocks& clocks) {
  const std::filesystem::path file = directory / entry.file;
  std::error_code error;
  const bool is_open = std::filesystem::exists(file, error) && std::filesystem::file_size(file, error) > 0;
  if (!is_open && !entry.events) {
    tables.provenance.skip("rank without a recording");
    return std::nullopt;
  }
  Result<StreamFile> opened = StreamFile::open(file, entry);  // before its tables: both may grow
  if (!opened) {
    return tl::unexpected(opened.error());
  }
  Result<RankTables> rank = read_rank_tables(directory / entry.tables, tables);
  if (!rank) {
    return tl::unexpected(rank.error());
  }
  if (const Result<void> own = check_rank(directory, entry, *rank); !own) {
    return tl::unexpected(own.error());
  }
  if (rank->lost_lines > 0) {
    tables.provenance.skip(std::string(k_skipped_table_line), rank->lost_lines);
  }
  if (!rank->rank && rank->aligned.empty()) {
    tables.provenance.assume("rank whose clock is lost, assumed to be the first one's");
  }
  if (const std::optional<RankClosing>& closing = rank->closing) {
    for (const auto& [reason, calls] : closing->skipped) {
      tables.provenance.skip(reason, calls);
    }
  } else if (rank->ops.size() >= k_most_op_rows) {
    tables.provenance.skip("rank killed with full tables, whose other calls nobody counted");
  }
  const TimeShift shift = shift_of(*rank, clocks);
  const StreamSurvey survey = opened->survey(rank->ops);
  if (!can_move(survey, shift)) {
    return failure(fmt::format("{}: a call lies centuries away from the others", file.string()));
  }
  return OpenStream{std::move(*opened), survey, std::move(rank->ops), shift};
}

}  // namespace commlens
