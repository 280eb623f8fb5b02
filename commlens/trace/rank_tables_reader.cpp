#include "commlens/trace/rank_tables_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/table_rows.hpp"

namespace commlens {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr JsonFields::Range k_any_count = {0, INT64_MAX};
constexpr JsonFields::Range k_any_time = {-(std::int64_t{1} << 61), std::int64_t{1} << 61};
constexpr JsonFields::Range k_any_wall = {0, std::int64_t{1} << 62};  // their difference fits beside a time

}  // namespace

class RankTablesReader::Lines {
 public:
  explicit Lines(Trace& tables) : rows_(tables, fields_) {
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

  /// A file of `bytes` has no row of a higher number.
  void set_file_bytes(std::size_t bytes) { most_rows_ = static_cast<std::int64_t>(bytes / k_least_row); }
  const RankTables& result() const { return result_; }
  const std::vector<OpId>& ops() const { return rows_.ops(); }
  const std::vector<std::uint32_t>& lanes() const { return rows_.lanes(); }

  RankTables take() {
    result_.ops = rows_.take_ops();
    result_.lanes = rows_.lanes();
    result_.lost_lines = lost_lines();
    return std::move(result_);
  }
  std::int64_t lost_lines() const { return std::max(damages_, lost_rows_); }

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
    } else if (const json* const pause = fields_.find(line, where, "pause", true)) {
      constexpr nanoseconds longest = k_longest_pause;
      result_.pause = {.at = nanoseconds(fields_.number(*pause, where, "at_ns", k_any_time)),
                       .length = nanoseconds(fields_.number(*pause, where, "for_ns", {0, longest.count()}))};
    } else if (const json* const closing = fields_.find(line, where, "closed", true)) {
      read_closing(*closing, where);
    } else {
      fields_.fail(where,
                   "has none of \"tag\", \"name\", \"group\", \"op\", \"aligned\", \"ending\", \"pause\" and "
                   "\"closed\"");
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
  std::int64_t most_rows_ = 0;
  std::int64_t damages_ = 0;
  std::int64_t lost_rows_ = 0;
};

RankTablesReader::RankTablesReader(Trace& tables) : lines_(std::make_unique<Lines>(tables)) {}
RankTablesReader::RankTablesReader(RankTablesReader&&) noexcept = default;
RankTablesReader& RankTablesReader::operator=(RankTablesReader&&) noexcept = default;
RankTablesReader::~RankTablesReader() = default;

void RankTablesReader::set_file_bytes(std::size_t bytes) { lines_->set_file_bytes(bytes); }
bool RankTablesReader::read(std::string_view line) { return lines_->read(line); }
void RankTablesReader::lose() { lines_->lose(); }
const std::optional<std::string>& RankTablesReader::error() const { return lines_->error(); }
const RankTables& RankTablesReader::tables() const { return lines_->result(); }
const std::vector<OpId>& RankTablesReader::ops() const { return lines_->ops(); }
const std::vector<std::uint32_t>& RankTablesReader::lanes() const { return lines_->lanes(); }
std::int64_t RankTablesReader::lost_lines() const { return lines_->lost_lines(); }
RankTables RankTablesReader::take() && { return lines_->take(); }

}  // namespace commlens
