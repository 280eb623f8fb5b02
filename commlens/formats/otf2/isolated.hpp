#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

/// Where a reader puts what it finds.
struct RecordSink {
  std::function<void(const CallRecord&)> add;
  std::function<void(std::string_view reason, std::int64_t records)> skip;    // skipped
  std::function<void(std::string_view reason, std::int64_t records)> assume;  // filled in
};

/// What a reader that runs in a process of its own may use.
struct IsolationLimits {
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // beyond what the process starts with
  std::chrono::seconds processor_time{1800};
  std::chrono::seconds silence{300};  // without a record
};

/// A reader that rests on a library not made for hostile input.
struct IsolatedReader {
  std::string producer;  // the format, for Provenance
  std::function<Result<void>(const std::filesystem::path& path, const RecordSink& sink)> read;
  IsolationLimits limits;
};

/// Runs the reader on `path` in a child process, which can do no harm but to end: when it crashes, exceeds a
/// limit, is killed or fails, that is one error that names the file. Records come back through a pipe as
/// calls JSON Lines (docs/formats/calls.md) and are checked here. A file without calls is an error.
Result<Trace> read_isolated(const IsolatedReader& reader, const std::filesystem::path& path);

}  // namespace commlens::formats::otf2
