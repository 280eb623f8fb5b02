#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "commlens/formats/io/call_builder.hpp"

namespace commlens::formats {

/// One printed average of a benchmark.
struct BenchmarkPoint {
  CommKind kind = CommKind::other;
  std::string name;  // kind `other`
  DType dtype = DType::uint8;
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
  std::int64_t ranks = 0;  // 0: not known
  double microseconds = 0;
  std::string tag;  // "in-place"
};

/// The trace of a benchmark's table: one call of rank 0 per printed average, which is its duration; they
/// start one after the other, the first at 0. Groups have a size and no members.
/// Provenance::averaged_times says so to whoever reads it.
class BenchmarkTrace {
 public:
  BenchmarkTrace(std::string producer, std::string origin) : calls_(std::move(producer), std::move(origin)) {
    calls_.provenance().averaged_times = true;
  }

  /// A point that cannot be (a time that is no number, a size beyond 1 PiB) is skipped and counted.
  void add(const BenchmarkPoint& point);

  /// Counts rows skipped.
  void skip(const std::string& reason, std::int64_t rows = 1) { calls_.provenance().skip(reason, rows); }

  bool is_empty() const { return points_ == 0; }
  Trace finish() { return calls_.finish(); }

 private:
  CallBuilder calls_;
  std::int64_t points_ = 0;
  std::int64_t next_start_ns_ = 0;
};

}  // namespace commlens::formats
