#pragma once
#include <memory>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/call_builder.hpp"

namespace commlens::formats {

/// One line of calls JSON Lines into `record`, which is cleared first. Fields we do not know are skipped; a
/// field that appears twice or has another type is an error. For many lines: CallLineParser.
Result<void> parse_call_line(std::string_view line, CallRecord& record);

/// Reads many lines of calls JSON Lines as parse_call_line does each, several times as fast.
class CallLineParser {
 public:
  CallLineParser();
  ~CallLineParser();
  CallLineParser(const CallLineParser&) = delete;
  CallLineParser& operator=(const CallLineParser&) = delete;

  /// As parse_call_line.
  Result<void> parse(std::string_view line, CallRecord& record);

 private:
  class Fast;
  std::unique_ptr<Fast> fast_;
};

}  // namespace commlens::formats
