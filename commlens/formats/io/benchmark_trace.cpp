#include "commlens/formats/io/benchmark_trace.hpp"

#include <cmath>

namespace commlens::formats {

void BenchmarkTrace::add(const BenchmarkPoint& point) {
  constexpr double longest = 1e12;  // µs; eleven days
  CallRecord record;
  if (!(point.microseconds >= 0 && point.microseconds <= longest)) {
    skip(std::string(k_skipped_impossible));
    return;
  }
  record.rank = 0;
  record.iteration_unknown = true;
  record.op = point.kind;
  record.name = point.name;
  record.dtype = point.dtype;
  record.input_bytes = point.input_bytes;
  record.output_bytes = point.output_bytes;
  record.tag = point.tag;
  record.group.is_given = true;
  if (is_point_to_point(point.kind)) {
    record.group_size = 2;
  } else if (point.ranks > 0) {
    record.group_size = point.ranks;
  }
  record.start_ns = next_start_ns_;
  record.duration_ns = std::llround(point.microseconds * 1e3);
  if (calls_.add_or_skip(record)) {
    next_start_ns_ += *record.duration_ns;
    ++points_;
  }
}

}  // namespace commlens::formats
