#include "commlens/live/tables_follower.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "commlens/trace/table_limits.hpp"

namespace commlens {

TablesFollower::Status TablesFollower::read(const PlainFile& directory, bool is_final) {
  if (is_unusable_) {
    return Status::unusable;
  }
  error_.clear();
  if (!file_.is_open()) {
    file_ = PlainFile::open_in(directory, file_name_);
    if (!file_.is_open() && file_.cause() != ENOENT) {
      const std::string cause = file_.cause() == EINVAL ? "not a regular file" : std::strerror(file_.cause());
      return file_.may_open_later() ? (error_ = file_name_ + ": " + cause, Status::absent) : fail(cause);
    }
    if (!file_.is_open()) {
      return Status::absent;
    }
  }
  const std::optional<PlainFile::Look> look = file_.look();
  const std::uint64_t bytes = look ? look->bytes : 0;
  if (bytes < offset_ || has_other_start()) {
    return Status::replaced;
  }
  if (bytes > static_cast<std::uint64_t>(k_largest_tables)) {
    return fail(fmt::format("larger than {} bytes", k_largest_tables));
  }
  return bytes == offset_ ? Status::open : read_lines(bytes, is_final);
}

TablesFollower::Status TablesFollower::fail(const std::string& why) {
  is_unusable_ = true;
  error_ = fmt::format("{}: {}", file_name_, why);
  return Status::unusable;
}

/// Whether the file begins with another line than the one that was read.
bool TablesFollower::has_other_start() {
  if (start_.empty()) {
    return false;
  }
  std::string now(start_.size(), '\0');
  now.resize(file_.read(0, std::as_writable_bytes(std::span(now))));
  return now != start_;
}

TablesFollower::Status TablesFollower::read_lines(std::uint64_t bytes, bool is_final) {
  reader_.set_file_bytes(bytes);
  constexpr std::size_t step = std::size_t{1} << 16;
  std::string text;
  bool is_at_end = false;
  while (!is_at_end) {
    const std::size_t before = text.size();
    text.resize(before + step);
    text.resize(before +
                file_.read(offset_ + before, std::as_writable_bytes(std::span(text)).subspan(before)));
    is_at_end = text.size() < before + step;
    std::string_view rest = text;
    for (std::size_t end = rest.find('\n', before); end != std::string_view::npos; end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end);
      if (!is_final && line.find('\0') != std::string_view::npos) {
        return Status::open;  // its page may come
      }
      if (start_.empty()) {
        constexpr std::size_t enough = 512;
        start_ = line.substr(0, enough);
      }
      if (!reader_.read(line)) {
        return fail(reader_.error().value_or(""));
      }
      offset_ += end + 1;
      rest.remove_prefix(end + 1);
    }
    text = std::string(rest);
    if (text.size() > k_longest_line) {
      const bool may_come = !is_final && text.find('\0') != std::string::npos;
      return may_come ? Status::open : fail(fmt::format("a line of more than {} bytes", k_longest_line));
    }
  }
  if (is_final && !has_lost_end_ && text.find('\0') != std::string::npos) {
    has_lost_end_ = true;
    reader_.lose();
  }
  return Status::open;
}

}  // namespace commlens
