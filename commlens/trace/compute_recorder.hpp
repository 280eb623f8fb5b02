#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>

#include "commlens/base/rank.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/stream_layout.hpp"

namespace commlens {

/// Appends the intervals in which a rank computed to a file of their own, as Recorder does with calls: no
/// lock, allocation or system call, and what is complete survives the process. When the disk is full, what
/// follows is counted. One thread uses it.
class ComputeRecorder {
 public:
  /// Intervals below `shortest` are skipped. Throws SystemError when the file cannot be made.
  ComputeRecorder(const std::filesystem::path& file, Rank rank, std::chrono::nanoseconds shortest);

  /// Computing begins, unless it has begun.
  void start(std::int64_t now_ns) noexcept;
  /// It ends; nothing when it has not begun.
  void stop(std::int64_t now_ns, Iteration iteration) noexcept;
  /// An interval that goes on belongs to `iteration` up to now, and to another from now on.
  void divide(std::int64_t now_ns, Iteration iteration) noexcept;
  /// Cuts the file after its last record. An interval that goes on has no end and is not written.
  void close() noexcept;

 private:
  bool make_room() noexcept;
  void drop() noexcept;

  StreamHeader head_;
  GrowingFile file_;
  StreamHeader* header_ = nullptr;  // in the file; null when closed
  ComputeRecord* records_ = nullptr;
  std::uint64_t count_ = 0;
  std::uint64_t room_ = 0;
  std::int64_t shortest_ns_;
  std::int64_t since_ns_ = k_no_time;  // k_no_time: not computing
};

}  // namespace commlens
