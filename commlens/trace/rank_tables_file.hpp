#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"
#include "commlens/trace/rank_process.hpp"
#include "commlens/trace/rank_tables.hpp"

namespace commlens {

/// Writes rank-R.jsonl while the rank runs: one line, in one write, when something is first seen.
class RankTablesFile {
 public:
  /// Makes or empties the file and writes its first line. Throws SystemError.
  RankTablesFile(const std::filesystem::path& path, Rank rank, const RankClock& clock,
                 const RankProcess& process);
  ~RankTablesFile();
  RankTablesFile(const RankTablesFile&) = delete;
  RankTablesFile& operator=(const RankTablesFile&) = delete;

  /// The row of an equal group, tag or op, added if new; after a line could not be written, rows have no
  /// meaning and is_broken() is true. In full tables (k_most_op_rows) new groups, tags and names have no row:
  /// k_no_group, 0; nor have new ops. Throws std::bad_alloc, and is as before then.
  GroupId group(const std::vector<Rank>& members, Axis axis, CommunicatorId communicator);
  TagId tag(std::string_view text);
  NameId name(std::string_view text);
  std::optional<std::uint32_t> op(const CommOp& op);
  static constexpr GroupId k_no_group{UINT32_MAX - 1};
  bool is_broken() const { return is_broken_; }

  void add_clock_point(const ClockPoint& point);
  void announce_end(std::int64_t now_ns);
  /// The rank may make no calls for so many seconds from now on, k_longest_pause at most. 0 or less, or no
  /// number: it is through. After k_most_pauses none begins.
  void announce_pause(std::int64_t now_ns, double for_s);
  static constexpr std::int64_t k_most_pauses = std::int64_t{1} << 16;

  /// Writes the last line and closes the file.
  void close(const RankClosing& closing);

 private:
  void append(const std::string& text);
  bool has_room() const { return ops_.size() < k_most_op_rows && size_ < k_most_table_bytes; }

  int file_ = -1;
  std::int64_t size_ = 0;
  std::int64_t pauses_ = 0;
  bool is_paused_ = false;
  bool is_broken_ = false;
  std::map<std::pair<Axis, std::vector<Rank>>, std::map<CommunicatorId, GroupId>> groups_;
  std::uint32_t group_count_ = 0;
  std::map<std::string, TagId, std::less<>> tags_;
  std::map<std::string, NameId, std::less<>> names_;
  std::map<CommOp, std::uint32_t> ops_;
};

}  // namespace commlens
