#include "commlens/trace/rank_tables_file.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/json_text.hpp"
#include "commlens/trace/table_text.hpp"

namespace commlens {
namespace {

void append_process(JsonObject& object, const RankProcess& process) {
  JsonObject written(object.opened("process"));
  written.text("host", process.host);
  written.number("pid", process.pid);
  written.number("start_ticks", process.start_ticks);
  written.text("exe", process.exe);
  if (!process.job_id.empty()) {
    written.text("job_id", process.job_id);
  }
  if (process.local_rank) {
    written.number("local_rank", *process.local_rank);
  }
}

std::string opening_line(Rank rank, const RankClock& clock, const RankProcess& process) {
  std::string line;
  {
    JsonObject object(line);
    object.text("schema", k_rank_schema);
    object.number("rank", rank.value);
    {
      JsonObject written(object.opened("clock"));
      written.text("source", clock.source);
      written.text("boot", clock.boot);
      written.number("frequency_hz", clock.frequency_hz);
      written.number("rate_error_ppb", clock.rate_error_ppb);
      written.number("wall_offset_ns", clock.wall_offset.count());
    }
    append_process(object, process);
  }
  return line;
}

std::string closing_line(const RankClosing& closing) {
  std::string line;
  {
    JsonObject object(line);
    JsonObject written(object.opened("closed"));
    written.number("events", closing.events);
    written.number("dropped", closing.dropped);
    written.number("cost_ns_per_call", closing.cost_per_call.count());
    written.number("clock_drift_ns", closing.clock_drift.count());
    if (!closing.skipped.empty()) {
      JsonObject skipped(written.opened("skipped"));
      for (const auto& [reason, calls] : closing.skipped) {
        skipped.number(reason, calls);
      }
    }
  }
  return line;
}

/// The line of row `row` that says `text` under `key`, and its end.
std::string text_line(std::string_view key, std::string_view text, std::size_t row) {
  std::string line;
  {
    JsonObject object(line);
    object.text(key, text);
    object.number("row", static_cast<std::int64_t>(row));
  }
  return line + "\n";
}

/// What follows the row itself.
std::string row_end(std::size_t row) {
  std::string end = ", \"row\": ";
  append_number(end, static_cast<std::int64_t>(row));
  return end + "}\n";
}

}  // namespace

RankTablesFile::RankTablesFile(const std::filesystem::path& path, Rank rank, const RankClock& clock,
                               const RankProcess& process)
    : tags_({{"", TagId{0}}}), names_({{"", NameId{0}}}) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ >= 0) {
    errno = ENOSPC;
    append(opening_line(rank, clock, process) + "\n");
  }
  if (file_ < 0 || is_broken_) {
    const int cause = errno;
    if (file_ >= 0) {
      ::close(file_);
    }
    throw_cannot_write(path, cause);
  }
}

RankTablesFile::~RankTablesFile() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

// A row is written when nothing can fail any more but the write, so that rows are numbered as they stand.

GroupId RankTablesFile::group(const std::vector<Rank>& members, Axis axis, CommunicatorId communicator) {
  const auto alike = groups_.find(std::pair(axis, members));
  const bool is_listed = alike != groups_.end();
  if (is_listed) {
    if (const auto known = alike->second.find(communicator); known != alike->second.end()) {
      return known->second;
    }
  }
  if (!has_room()) {
    return k_no_group;
  }
  std::string line = "{\"group\": ";
  if (is_listed) {  // the list may be long, and a program may make many communicators of it
    append_group_row_alike(line, alike->second.begin()->second, axis, communicator);
  } else {
    append_group_row(line, members, axis, communicator);
  }
  line += row_end(group_count_);
  const GroupId id{group_count_};
  if (is_listed) {
    alike->second.emplace(communicator, id);
  } else {
    groups_.emplace(std::pair(axis, members), std::map<CommunicatorId, GroupId>{{communicator, id}});
  }
  ++group_count_;
  append(line);
  return id;
}

TagId RankTablesFile::tag(std::string_view text) {
  const auto known = tags_.find(text);
  if (known != tags_.end()) {
    return known->second;
  }
  if (!has_room()) {
    return {};
  }
  const std::string line = text_line("tag", text, tags_.size());
  const TagId id{static_cast<std::uint32_t>(tags_.size())};
  tags_.emplace(text, id);
  append(line);
  return id;
}

NameId RankTablesFile::name(std::string_view text) {
  const auto known = names_.find(text);
  if (known != names_.end()) {
    return known->second;
  }
  if (!has_room()) {
    return {};
  }
  const std::string line = text_line("name", text, names_.size());
  const NameId id{static_cast<std::uint32_t>(names_.size())};
  names_.emplace(text, id);
  append(line);
  return id;
}

void RankTablesFile::add_clock_point(const ClockPoint& point) {
  std::string line;
  {
    JsonObject object(line);
    JsonObject written(object.opened("aligned"));
    written.number("at_ns", point.at.count());
    written.number("offset_ns", point.offset.count());
    written.number("error_ns", point.error.count());
  }
  append(line + "\n");
}

void RankTablesFile::announce_end(std::int64_t now_ns) {
  std::string line;
  {
    JsonObject object(line);
    JsonObject written(object.opened("ending"));
    written.number("at_ns", now_ns);
  }
  append(line + "\n");
}

void RankTablesFile::announce_pause(std::int64_t now_ns, double for_s) {
  const double longest = std::chrono::duration<double>(k_longest_pause).count();
  const double length = for_s > 0 ? std::min(for_s, longest) : 0;  // no number is not above 0
  const bool begins = length > 0;
  if (begins ? pauses_ >= k_most_pauses : !is_paused_) {
    return;
  }
  std::string line;
  {
    JsonObject object(line);
    JsonObject written(object.opened("pause"));
    written.number("at_ns", now_ns);
    written.number("for_ns", static_cast<std::int64_t>(length * 1e9));
  }
  append(line + "\n");
  pauses_ += begins ? 1 : 0;
  is_paused_ = begins;
}

std::optional<std::uint32_t> RankTablesFile::op(const CommOp& op) {
  if (const auto known = ops_.find(op); known != ops_.end()) {
    return known->second;
  }
  if (!has_room()) {
    return std::nullopt;
  }
  std::string line = "{\"op\": ";
  append_op_row(line, op);
  line += row_end(ops_.size());
  const auto row = static_cast<std::uint32_t>(ops_.size());
  ops_.emplace(op, row);
  append(line);
  return row;
}

void RankTablesFile::close(const RankClosing& closing) {
  if (file_ < 0) {
    return;
  }
  is_broken_ = false;  // rows are missing after this line, but the disk may have room for it now
  append(closing_line(closing) + "\n");
  ::close(file_);
  file_ = -1;
}

// A part of a line would spoil the lines after it: it is taken back.
void RankTablesFile::append(const std::string& text) {
  if (is_broken_ || file_ < 0) {
    return;
  }
  const auto size = static_cast<std::int64_t>(text.size());
  ssize_t written = -1;
  if (is_within_file_limit(static_cast<std::uint64_t>(size_ + size))) {
    do {
      written = ::write(file_, text.data(), text.size());
    } while (written < 0 && errno == EINTR);
  }
  if (written == size) {
    size_ += size;
    return;
  }
  is_broken_ = true;
  if (written > 0) {
    [[maybe_unused]] const int ignored = ftruncate(file_, size_);
    lseek(file_, size_, SEEK_SET);
  }
}

}  // namespace commlens
