#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/mapped_file.hpp"
#include "commlens/trace/ring_file.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Writes the records of `stream`, row `index` of the manifest (docs/formats/trace.md). Throws SystemError.
void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file);

/// What the header of a recorder's file says.
struct StreamUse {
  std::int64_t records = 0;  // that are there: of a ring the last ones
  std::int64_t written = 0;  // in all
  std::int64_t dropped = 0;  // calls that were not recorded
};

/// Facts of a stream's calls that need all of them.
struct StreamSurvey {
  std::int64_t records = 0;  // whole ones in use, unfinished calls with them
  std::int64_t timed = 0;    // finished calls that have a time
  std::int64_t untimed = 0;
  std::chrono::nanoseconds first_issued = std::chrono::nanoseconds::max();  // of those that have a time
  std::chrono::nanoseconds first_started = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds last_started = std::chrono::nanoseconds::min();
  std::chrono::nanoseconds last_finished = std::chrono::nanoseconds::min();
  /// Times are kept when every call has them.
  bool has_times() const { return untimed == 0; }
};

/// What to add to the times of a stream: `offset` at time `at`, and `rate` more per nanosecond from then on.
struct TimeShift {
  std::chrono::nanoseconds offset{};
  std::chrono::nanoseconds at{};
  double rate = 0;

  std::chrono::nanoseconds of(std::chrono::nanoseconds time) const {
    return rate == 0 ? offset
                     : offset + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                    static_cast<double>((time - at).count()) * rate));
  }
};

/// A stream's file and the content of its header when it was opened. What a recorder adds later is not seen,
/// so tables that are read after the opening have every row that its records need.
class StreamFile {
 public:
  /// Fails, naming the file, when it cannot be read or its header is none of `entry`. A header of zeros was
  /// lost with the page it was on: then the manifest repeats it.
  static Result<StreamFile> open(const std::filesystem::path& path, const StreamEntry& entry);

  StreamUse use() const;
  bool is_ring() const { return ring_.has_value(); }
  /// Bytes up to the end of the last record.
  std::uint64_t bytes_in_use() const;
  /// Records that were overwritten before it was opened. Those that are overwritten later are counted by
  /// visit().
  std::int64_t overwritten() const;
  /// What is left of these; `lanes`: how many there are by the tables.
  RingRemains remains(std::size_t lanes) const;
  /// The iteration of the first record that is there, which may lack calls that were overwritten; absent
  /// where none was.
  std::optional<Iteration> cut_iteration() const;

  /// Reads the records that are in use; `ops` are the tables' rows, k_lost_op those that were lost.
  StreamSurvey survey(const std::vector<OpId>& ops) const;

  /// Some calls in issue order, and their times: none, or one for each.
  using Sink = std::function<void(std::span<const CommEvent>, std::span<const Times>)>;
  /// Gives the calls, block by block and in bounded memory, to `sink`; `ops` are the tables' rows, times have
  /// `shift` added. What is skipped is counted in `skipped` of the provenance: a torn last record, records
  /// that the header or the manifest promises and the file lacks, records that are no calls (zeros,
  /// impossible ones, those that the tables do not describe), calls that never finished or were not recorded,
  /// and times that other calls of the stream do not have. Checks each record again, since one that is being
  /// recorded may have changed since `survey`.
  void visit(const std::vector<OpId>& ops, const StreamSurvey& survey, const TimeShift& shift,
             Provenance& provenance, const Sink& sink) const;

  /// Rows `first` to `first` + `count` - 1 of the records; there is nothing after the last one.
  struct Part {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  /// Some calls and their times: none, or one for each.
  struct Calls {
    std::vector<CommEvent> events;
    std::vector<Times> times;
  };
  /// Appends the calls among some records as visit() gives them, and counts nothing.
  void read(Part part, const std::vector<OpId>& ops, const StreamSurvey& survey, const TimeShift& shift,
            Calls& calls) const;

  /// Gives every call that the tables describe, in issue order and whatever its end (StreamRecord as in
  /// version 2). Returns how many calls of the stream are not among them: lost or never recorded.
  /// `first`: of a ring the index of the first record that is asked for.
  std::int64_t visit_records(const std::vector<OpId>& ops,
                             const std::function<void(OpId, const StreamRecord&)>& sink,
                             std::uint64_t first = 0) const;

  /// Gives back the mapping until map_again(), which throws SystemError where the file is not what it was; in
  /// between nothing can be read.
  void unmap() { mapped_.unmap(); }
  void map_again() { mapped_.map_again(); }

 private:
  struct LeftOut;
  StreamFile(StreamEntry entry, MappedFile mapped, const StreamHeader& header, bool has_header);

  std::span<const std::byte> records() const;
  void count_missing(Provenance& provenance) const;
  std::int64_t missing_in_ring() const;
  std::size_t read_bytes(std::uint64_t offset, std::span<std::byte> into) const;
  ReadAt reader() const;
  template <typename Take>
  void each_described(Part part, const std::vector<OpId>& ops, LeftOut& left_out, const Take& take) const;
  template <typename Take>
  void each_finished(Part part, const std::vector<OpId>& ops, LeftOut& left_out, const Take& take) const;
  template <typename Take>
  void each_in_ring(Part part, const Take& take, LeftOut& left_out) const;
  Part all() const { return {0, static_cast<std::size_t>(use().records)}; }

  StreamEntry entry_;
  MappedFile mapped_;
  StreamHeader header_;
  bool has_header_;
  std::optional<RingHead> ring_;
};

/// A stream whose tables are known.
struct OpenStream {
  StreamFile file;
  StreamSurvey survey;
  std::vector<OpId> ops;  // recordings: row in the file -> op of the trace
  TimeShift shift;
};

}  // namespace commlens
