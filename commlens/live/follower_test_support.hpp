#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/live/folder_follower.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::test_support {

inline PollTime at(std::int64_t second) {
  return {std::chrono::seconds(1000 + second), 1'700'000'000'000'000'000};
}

/// Writes over a number in a file that a recorder has open.
inline void overwrite(const std::filesystem::path& file, std::size_t offset, std::int64_t value) {
  std::fstream in_place(file, std::ios::in | std::ios::out | std::ios::binary);
  in_place.seekp(static_cast<std::streamoff>(offset));
  in_place.write(reinterpret_cast<const char*>(&value), sizeof value);
  ASSERT_TRUE(in_place.good()) << file;
}
/// As if a rank's recorder had been too slow for so many calls: they are counted, and have no records.
inline void drop_calls(const std::filesystem::path& trace, std::int64_t rank, std::int64_t calls) {
  overwrite(trace / ("rank-" + std::to_string(rank) + ".bin"), offsetof(StreamHeader, dropped_late), calls);
}
/// As if no clock could be read when a call of a rank, counted from 0, was made.
inline void lose_time(const std::filesystem::path& trace, std::int64_t rank, std::size_t call) {
  overwrite(trace / ("rank-" + std::to_string(rank) + ".bin"),
            sizeof(StreamHeader) + call * sizeof(StreamRecord) + offsetof(StreamRecord, started_ns),
            k_no_time);
}

/// A job of some ranks whose calls a test makes one by one.
class FollowedRanks {
 public:
  /// `ring`: records that each keeps, 0: all.
  explicit FollowedRanks(const std::filesystem::path& directory, std::int64_t ranks = 2,
                         std::int64_t ring = 0)
      : directory_(directory), ring_(ring) {
    create_recording(directory, {.producer = "test", .framework = {}, .ranks = ranks, .ring_records = ring});
    recorders_.resize(static_cast<std::size_t>(ranks));
  }
  Recorder& rank(std::int64_t rank) {
    std::unique_ptr<Recorder>& recorder = recorders_[static_cast<std::size_t>(rank)];
    if (!recorder) {
      recorder = std::make_unique<Recorder>(directory_, Rank{rank}, RecorderOptions{.ring_records = ring_});
    }
    return *recorder;
  }
  Recorder::Slot enter(std::int64_t of, std::int64_t elements = 8, bool is_blocking = true,
                       CommunicatorId communicator = CommunicatorId{7}) {
    Recorder& recorder = rank(of);
    return recorder.begin({.kind = CommKind::all_reduce,
                           .dtype = DType::fp32,
                           .group = recorder.group(members(), Axis::unknown, communicator),
                           .input = Elements{elements},
                           .output = Elements{elements},
                           .blocking = is_blocking,
                           .tag = {}});
  }
  void call(std::int64_t of, std::int64_t elements = 8) { rank(of).finish(enter(of, elements)); }
  void close() {
    for (std::unique_ptr<Recorder>& recorder : recorders_) {
      recorder.reset();
    }
  }

 private:
  std::vector<Rank> members() const {
    std::vector<Rank> all;
    for (std::size_t rank = 0; rank < recorders_.size(); ++rank) {
      all.push_back(Rank{static_cast<std::int64_t>(rank)});
    }
    return all;
  }
  std::filesystem::path directory_;
  std::int64_t ring_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
};

/// A test that polls at seconds of its choice.
class FollowerTest : public testing::Test {
 protected:
  const JobView& poll(FolderFollower& follower, std::int64_t second = 0) {
    const Result<void> polled = follower.poll(at(second));
    EXPECT_TRUE(polled) << polled.error().message;
    return follower.view();
  }
  ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "trace";
};

}  // namespace commlens::test_support
