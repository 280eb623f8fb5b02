#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/call_line_parser.hpp"

namespace commlens::formats::otf2 {

/// Text that carries records from one process to another: a line of calls JSON Lines per record after the
/// number of its group, and lines of one letter and values for the rest, so that the ranks of a large group
/// are written once.
///   G 0 1 2         the next group: its ranks
///   R 7 {"rank":…}  a record; its group is the 7th, or none of those for "-"
///   S 12 torn line  records skipped, and why
///   A 1 no rank     what was filled in
///   E no such table the reader failed
///   .               the end
class RecordEncoder {
 public:
  explicit RecordEncoder(std::string& out) : out_(out) {}
  void add(const CallRecord& record);
  void skip(std::string_view reason, std::int64_t records);
  void assume(std::string_view reason, std::int64_t records);
  void fail(std::string_view message);
  void finish() { out_ += ".\n"; }

 private:
  std::string& out_;
  std::map<std::vector<Rank>, std::size_t> groups_;
};

/// Takes the lines of a RecordEncoder, which may come from a process that went wrong.
class RecordDecoder {
 public:
  explicit RecordDecoder(CallBuilder& calls) : calls_(calls) {}
  /// Fails on what the encoder does not write.
  Result<void> take(std::string_view line);

  bool is_finished() const { return is_finished_; }
  /// The reader's message when it failed.
  const std::optional<std::string>& failure_text() const { return failure_; }
  std::int64_t records() const { return records_; }

 private:
  Result<void> take_group(std::string_view ranks);
  Result<void> take_record(std::string_view text);

  CallBuilder& calls_;
  std::vector<std::vector<Rank>> groups_;
  CallLineParser parser_;
  CallRecord record_;
  std::int64_t records_ = 0;
  bool is_finished_ = false;
  std::optional<std::string> failure_;
};

}  // namespace commlens::formats::otf2
