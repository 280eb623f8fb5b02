#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/trace/rank_tables.hpp"

namespace commlens {

/// Reads rank-R.jsonl line by line, as it grows, and merges its rows into the tables of a trace.
class RankTablesReader {
 public:
  /// `tables` outlives it.
  explicit RankTablesReader(Trace& tables);
  RankTablesReader(RankTablesReader&&) noexcept;
  RankTablesReader& operator=(RankTablesReader&&) noexcept;
  RankTablesReader(const RankTablesReader&) = delete;
  RankTablesReader& operator=(const RankTablesReader&) = delete;
  ~RankTablesReader();

  /// The size of the file so far: bounds the numbers of rows in a damaged one.
  void set_file_bytes(std::size_t bytes);
  /// Takes a line, without its end. False when something is wrong; the reason is in error(). A line with
  /// zeros was lost with a part of the file.
  bool read(std::string_view line);
  /// A part of the file was lost.
  void lose();
  const std::optional<std::string>& error() const;

  /// What was read so far, but for ops, lanes and lost lines, which are below.
  const RankTables& tables() const;
  const std::vector<OpId>& ops() const;
  const std::vector<std::uint32_t>& lanes() const;
  std::int64_t lost_lines() const;
  RankTables take() &&;

 private:
  class Lines;
  std::unique_ptr<Lines> lines_;
};

}  // namespace commlens
