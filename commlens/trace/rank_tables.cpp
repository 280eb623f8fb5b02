#include "commlens/trace/rank_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/rank_tables_reader.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/table_limits.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

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
  RankTablesReader reader(tables);
  reader.set_file_bytes(text->size());
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
  return std::move(reader).take();
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
