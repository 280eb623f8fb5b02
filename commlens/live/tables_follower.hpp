#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/plain_file.hpp"
#include "commlens/trace/rank_tables_reader.hpp"

namespace commlens {

/// Reads one rank's tables while they grow: whole lines only, from where it stopped.
class TablesFollower {
 public:
  /// The rows go into `tables`, which outlives it.
  TablesFollower(std::string file, Trace& tables) : file_name_(std::move(file)), reader_(tables) {}

  enum class Status : std::uint8_t { absent, open, replaced, unusable };
  /// Reads the lines that are new. `is_final`: a part of the file that reads as zeros is lost; before, it may
  /// come.
  Status read(const PlainFile& directory, bool is_final);
  /// Of a file that is absent: why it cannot be opened now, empty where there is none.
  const std::string& error() const { return error_; }

  const RankTables& tables() const { return reader_.tables(); }
  /// Row in the file -> op of the trace; k_lost_op where it was lost.
  const std::vector<OpId>& ops() const { return reader_.ops(); }
  /// Of each op its lane (OpLanes), where no line was lost.
  const std::vector<std::uint32_t>& lanes() const { return reader_.lanes(); }
  std::int64_t lost_lines() const { return reader_.lost_lines(); }

  static constexpr std::size_t k_longest_line = std::size_t{1} << 20;

 private:
  bool has_other_start();
  Status fail(const std::string& why);
  Status read_lines(std::uint64_t bytes, bool is_final);

  std::string file_name_;
  PlainFile file_;
  RankTablesReader reader_;
  std::uint64_t offset_ = 0;  // of the first line that was not read
  std::string start_;         // of the first line: another one is another recording's
  bool has_lost_end_ = false;
  bool is_unusable_ = false;
  std::string error_;
};

}  // namespace commlens
