// Pages of a recording's files that were lost and read as zeros, as a crashed machine or a file system of a
// network leaves them.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

constexpr std::size_t k_page = 4096;
constexpr std::int64_t k_ranks = 2;
constexpr std::int64_t k_calls = 1000;  // of each rank: 8 pages

/// Call k is of iteration k and has one of 120 descriptions, some new in every part of the run.
void record(const std::filesystem::path& directory) {
  create_recording(directory, {.producer = "test", .framework = {}, .ranks = k_ranks, .compute = true});
  static const std::vector<std::string> tags = {"wte", "wpe", "mlp"};
  for (std::int64_t rank = 0; rank < k_ranks; ++rank) {
    Recorder recorder(directory, Rank{rank}, {.parts = RecorderParts::calls_and_compute});
    for (std::int64_t call = 0; call < k_calls; ++call) {
      recorder.set_iteration(static_cast<Iteration>(call));
      const std::int64_t kind = std::min(call, call % 17 + call / 10);
      const CommunicatorId communicator{static_cast<std::uint64_t>(1 + kind % 5)};
      recorder.finish(recorder.begin({.kind = CommKind::all_reduce,
                                      .dtype = DType::fp32,
                                      .group = recorder.group({Rank{0}, Rank{1}}, Axis::dp, communicator),
                                      .input = Elements{1 + kind},
                                      .output = Elements{1 + kind},
                                      .tag = tags[static_cast<std::size_t>(kind % 3)],
                                      .name = recorder.name(fmt::format("call {}", kind % 7))}));
      recorder.start_computing(1'000'000 + call * 5'000);
      recorder.stop_computing(1'000'000 + call * 5'000 + 2'000 + call);
    }
  }
}

/// Reads as zeros from now on.
void lose_page(const std::filesystem::path& file, std::size_t page) {
  std::string content = content_of(file);
  const std::size_t begin = std::min(page * k_page, content.size());
  std::fill(content.begin() + static_cast<std::ptrdiff_t>(begin),
            content.begin() + static_cast<std::ptrdiff_t>(std::min(begin + k_page, content.size())), '\0');
  std::ofstream(file, std::ios::binary) << content;
}

/// Of what was lost, all that starts with `reason`.
std::int64_t lost(const Trace& trace, std::string_view reason) {
  std::int64_t sum = 0;
  for (const auto& [said, count] : trace.provenance.skipped) {
    sum += said.starts_with(reason) ? count : 0;
  }
  return sum;
}

class PageLoss : public testing::Test {
 protected:
  void SetUp() override {
    record(directory_ / "whole");
    if (!HasFailure()) {
      finish_recording(directory_ / "whole");
    }
    Result<Trace> whole = read_trace(directory_ / "whole");
    ASSERT_TRUE(whole) << whole.error().message;
    whole_ = std::move(*whole);
    ASSERT_TRUE(whole_.provenance.skipped.empty());
    for (std::int64_t rank = 0; rank < k_ranks; ++rank) {
      calls_.push_back(spelled_calls(whole_, Rank{rank}));
      ASSERT_EQ(std::ssize(calls_.back()), k_calls);
      ASSERT_EQ(std::ssize(whole_.streams[static_cast<std::size_t>(rank)].compute), k_calls);
    }
  }

  /// A copy of the recording, of which pages are to be lost.
  std::filesystem::path copy() const {
    const std::filesystem::path path = directory_ / "damaged";
    std::filesystem::remove_all(path);
    std::filesystem::copy(directory_ / "whole", path, std::filesystem::copy_options::recursive);
    return path;
  }

  /// Loses a random page of a random file whose name ends in one of `endings`.
  static void lose(const std::filesystem::path& directory, const std::vector<std::string>& endings,
                   std::mt19937_64& random) {
    const std::filesystem::path file =
        directory / fmt::format("rank-{}{}", random() % k_ranks, endings[random() % endings.size()]);
    lose_page(file, random() % (std::filesystem::file_size(file) / k_page + 1));
  }

  /// What is there is what was, in its order.
  void expect_part_of_whole(const Trace& trace, std::uint64_t seed) const {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(k_ranks); ++rank) {
      Iteration last = -1;
      for (SpelledCall call : spelled_calls(trace, Rank{static_cast<std::int64_t>(rank)})) {
        ASSERT_GT(call.iteration, last) << "seed=" << seed;
        last = call.iteration;
        ASSERT_LT(last, k_calls) << "seed=" << seed;
        const SpelledCall& was = calls_[rank][static_cast<std::size_t>(last)];
        if (trace.streams[rank].times.empty()) {
          call.started = was.started;
          call.duration = was.duration;
        }
        ASSERT_TRUE(call == was) << "seed=" << seed << " iteration " << last;
      }
      const std::vector<ComputeInterval>& compute = whole_.streams[rank].compute;
      for (const ComputeInterval& interval : trace.streams[rank].compute) {
        ASSERT_TRUE(std::binary_search(compute.begin(), compute.end(), interval)) << "seed=" << seed;
      }
    }
  }

  static std::int64_t seen(const Trace& trace) {
    return std::ssize(trace.streams[0].events) + std::ssize(trace.streams[1].events);
  }
  static std::int64_t computed(const Trace& trace) {
    return std::ssize(trace.streams[0].compute) + std::ssize(trace.streams[1].compute);
  }

  ScratchDirectory directory_;
  Trace whole_;
  std::vector<std::vector<SpelledCall>> calls_;
};

TEST_F(PageLoss, OfCallsIsCountedAndInventsNone) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const std::filesystem::path directory = copy();
    for (std::uint64_t pages = 1 + random() % 3; pages > 0; --pages) {
      lose(directory, {".bin"}, random);
    }
    const Result<Trace> trace = read_trace(directory);
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    expect_part_of_whole(*trace, seed);
    EXPECT_EQ(seen(*trace) + lost(*trace, "call lost, record of zeros"), k_ranks * k_calls)
        << "seed=" << seed;
    EXPECT_LT(seen(*trace), k_ranks * k_calls) << "seed=" << seed;
    EXPECT_EQ(lost(*trace, "call lost, impossible"), 0) << "seed=" << seed;
    EXPECT_EQ(computed(*trace), k_ranks * k_calls) << "seed=" << seed;
  }
}

TEST_F(PageLoss, OfComputeTimesIsCountedAndInventsNone) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const std::filesystem::path directory = copy();
    lose(directory, {".compute.bin"}, random);
    const Result<Trace> trace = read_trace(directory);
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    expect_part_of_whole(*trace, seed);
    EXPECT_EQ(seen(*trace), k_ranks * k_calls) << "seed=" << seed;
    EXPECT_EQ(computed(*trace) + lost(*trace, "compute time lost"), k_ranks * k_calls) << "seed=" << seed;
    EXPECT_LT(computed(*trace), k_ranks * k_calls) << "seed=" << seed;
  }
}

// Calls whose descriptions are lost are lost, and no other call takes their place.
TEST_F(PageLoss, OfAnyFileOfARankInventsNothing) {
  std::int64_t undescribed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const std::filesystem::path directory = copy();
    for (std::uint64_t pages = 1 + random() % 4; pages > 0; --pages) {
      lose(directory, {".jsonl", ".jsonl", ".bin", ".compute.bin"}, random);
    }
    const Result<Trace> trace = read_trace(directory);
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    expect_part_of_whole(*trace, seed);
    EXPECT_EQ(seen(*trace) + lost(*trace, "call lost"), k_ranks * k_calls) << "seed=" << seed;
    undescribed += lost(*trace, "call lost, not described");
    EXPECT_FALSE(trace->provenance.skipped.empty()) << "seed=" << seed;
  }
  EXPECT_GT(undescribed, 0);
}

// The ranks were killed, and nobody has counted what they recorded: what is lost at the very end of a file
// whose header is lost too cannot be known.
TEST_F(PageLoss, OfAKilledRecordingInventsNone) {
  const std::vector<std::string> files = {".jsonl", ".bin", ".bin", ".compute.bin"};
  std::string manifest = content_of(directory_ / "whole/manifest.json");
  for (std::size_t at = manifest.find("\"events\": 1000, "); at != std::string::npos;
       at = manifest.find("\"events\": 1000, ")) {
    manifest.erase(at, 16);
  }
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const std::filesystem::path directory = copy();
    std::ofstream(directory / "manifest.json", std::ios::binary) << manifest;
    for (std::uint64_t pages = 1 + random() % 4; pages > 0; --pages) {
      lose(directory, files, random);
    }
    if (seed % 2 == 0) {
      finish_recording(directory);
    }
    const Result<Trace> trace = read_trace(directory);
    ASSERT_TRUE(trace) << "seed=" << seed << ": " << trace.error().message;
    expect_part_of_whole(*trace, seed);
    EXPECT_LE(seen(*trace) + lost(*trace, "call lost"), k_ranks * k_calls) << "seed=" << seed;
    const bool is_known = lost(*trace, "rank whose file lost its header") == 0;
    EXPECT_TRUE(!is_known || seen(*trace) + lost(*trace, "call lost") == k_ranks * k_calls)
        << "seed=" << seed;
  }
}

TEST_F(PageLoss, OfAHeaderIsSaid) {
  const std::filesystem::path directory = copy();
  lose_page(directory / "rank-1.bin", 0);
  const Result<Trace> trace = read_trace(directory);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams[0].events.size(), 1000U);
  EXPECT_EQ(trace->streams[1].events.size(), 1000U - 126U);  // 4096 = 64 + 126 * 32
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"call lost, record of zeros", 126},
                                                 {"rank whose file lost its header", 1}}));
}

TEST_F(PageLoss, OfTheFirstLineOfTheTablesLosesTheClock) {
  const std::filesystem::path directory = copy();
  lose_page(directory / "rank-1.jsonl", 0);
  const Result<Trace> trace = read_trace(directory);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams[0].events.size(), 1000U);
  EXPECT_LT(trace->streams[1].events.size(), 1000U);
  EXPECT_EQ(trace->provenance.assumed.at("rank whose clock is lost, assumed to be the first one's"), 1);
  EXPECT_GT(lost(*trace, "line of a rank's tables lost"), 10);
}

}  // namespace
}  // namespace commlens
