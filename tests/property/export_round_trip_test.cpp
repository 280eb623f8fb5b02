// Exports in a format that we also read are imported unchanged: recordings of the kind that MPI programs
// make.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/write_export.hpp"
#include "commlens/trace/merge_traces.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;
using test_support::ScratchDirectory;

/// Recordings with communicators in any order of ranks, several of the same ranks, one-sided calls to any
/// rank, unions of two groups, calls that overlap, roots, and functions that are no collective of ours.
class Recording {
 public:
  explicit Recording(std::uint64_t seed) : random_(seed) {}

  Trace make() {
    ranks_ = between(1, 6);
    trace_.provenance.source = Source::recorded;
    for (std::int64_t communicator = between(1, 4); communicator > 0; --communicator) {
      add_communicator();
    }
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      add_stream(Rank{rank});
    }
    return std::move(trace_);
  }

 private:
  struct Communicator {
    std::vector<Rank> members;
    CommunicatorId id{};
  };

  std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
  }
  bool coin() { return between(0, 1) == 1; }

  void add_communicator() {
    std::vector<Rank> members;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      members.push_back(Rank{rank});
    }
    if (coin()) {
      std::shuffle(members.begin(), members.end(), random_);
      members.resize(static_cast<std::size_t>(between(1, ranks_)));
    }
    const bool is_world = communicators_.empty() && coin();
    const bool has_number = members.size() > 1 && coin();
    communicators_.push_back({members, is_world && members.size() > 1 ? world_communicator()
                                       : has_number
                                           ? CommunicatorId{static_cast<std::uint64_t>(between(1, 1 << 30))}
                                           : k_no_communicator});
  }

  CommOp op(Rank self) {
    static const std::vector<std::string> others = {
        "MPI_Put", "MPI_Scan", "MPI_Gather", "MPI_Win_fence", "", "ncclGroup \"x\", y", "größer"};
    static const std::vector<std::string> functions = {"",           "MPI_Irecv",         "MPI_Sendrecv",
                                                       "MPI_Ibcast", "engine.py:33 step", "MPI_Allreduce"};
    const Communicator& communicator = communicators_[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(communicators_.size()) - 1))];
    const bool is_member = std::find(communicator.members.begin(), communicator.members.end(), self) !=
                           communicator.members.end();
    CommOp op{.kind = is_member ? static_cast<CommKind>(between(0, 9)) : CommKind::send,
              .dtype = coin() ? DType::fp64 : DType::int8};
    const Rank peer{between(0, ranks_ - 1)};
    const bool is_one_sided = op.kind == CommKind::other && peer != self && coin();
    std::vector<Rank> group = communicator.members;
    if (op.kind == CommKind::send || is_one_sided) {
      group = {self, peer};
    } else if (op.kind == CommKind::recv) {
      group = {peer, self};
    }
    op.group = trace_.groups.intern(group, Axis::unknown, communicator.id);
    op.input = Elements{op.kind == CommKind::recv || op.kind == CommKind::barrier ? 0 : between(0, 1000)};
    op.output = Elements{op.kind == CommKind::send || op.kind == CommKind::barrier ? 0 : between(0, 1000)};
    if (has_root(op.kind) || (op.kind == CommKind::other && !is_one_sided && coin())) {
      op.root = GroupRank{between(0, static_cast<std::int64_t>(group.size()) - 1)};
    }
    const auto& names = op.kind == CommKind::other ? others : functions;
    op.name = trace_.names.intern(
        names[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(names.size()) - 1))]);
    return op;
  }

  /// Starts ascend, as a recorder writes them; ends do not.
  void add_stream(Rank rank) {
    RankStream stream{{rank, rank}, {}, {}, {}};
    std::int64_t start = between(0, 1'000'000);
    for (std::int64_t calls = between(1, 40); calls > 0; --calls) {
      stream.events.push_back({trace_.intern(op(rank)), coin() ? k_unknown_iteration : Iteration{3}, -1});
      const std::int64_t end = start + between(0, coin() ? 50 : 100'000);
      stream.times.push_back({nanoseconds(start), nanoseconds(start), nanoseconds(end)});
      start = coin() ? end + between(0, 1000) : start + between(0, 1000);
    }
    trace_.streams.push_back(std::move(stream));
  }

  std::mt19937_64 random_;
  std::int64_t ranks_ = 0;
  Trace trace_;
  std::vector<Communicator> communicators_;
};

Result<Trace> read_back(const std::string& format, const std::filesystem::path& file, std::int64_t ranks) {
  if (format != "chakra") {
    return formats::import_any(file);
  }
  std::vector<Trace> parts;
  std::vector<std::string> names;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Result<Trace> part = formats::import_any(file / fmt::format("chakra.{}.et", rank));
    if (!part) {
      return part;
    }
    parts.push_back(std::move(*part));
    names.push_back(fmt::format("rank {}", rank));
  }
  return merged(std::move(parts), names);
}

/// The first call that differs, for people; empty when none does.
std::string first_difference(const Trace& before, const Trace& after, Rank rank) {
  const auto text = [](const test_support::SpelledCall& call) {
    std::string ranks;
    for (const Rank member : call.group) {
      ranks += fmt::format(" {}", member.value);
    }
    return fmt::format("{} {} {}>{} group{} of {} root {} \"{}\" at {} for {} in {}", name_of(call.kind),
                       name_of(call.dtype), call.input, call.output, ranks, text_of(call.communicator),
                       call.root, call.name, call.started, call.duration, call.iteration);
  };
  const auto calls = test_support::spelled_calls(before, rank);
  const auto again = test_support::spelled_calls(after, rank);
  for (std::size_t row = 0; row < std::max(calls.size(), again.size()); ++row) {
    if (row >= calls.size() || row >= again.size() || calls[row] != again[row]) {
      return fmt::format("rank {}, call {}: {}\n became {}", rank.value, row,
                         row < calls.size() ? text(calls[row]) : "none",
                         row < again.size() ? text(again[row]) : "none");
    }
  }
  return {};
}

void expect_back(const std::string& format, const std::string& file_name) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("{}, seed {}", format, seed));
    const ScratchDirectory directory;
    const Trace trace = Recording(seed).make();
    const Result<void> written =
        formats::write_export(*formats::exporter_named(format), trace, {}, (directory / file_name).string());
    ASSERT_TRUE(written) << written.error().message;
    const Result<Trace> back = read_back(format, directory / file_name, trace.ranks());
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->provenance.skipped, (std::map<std::string, std::int64_t>{}));
    for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
      ASSERT_EQ(first_difference(trace, *back, rank), "");
    }
  }
}

TEST(RoundTrip, OfRecordingsThroughCallsJsonLines) { expect_back("calls", "job.jsonl"); }
TEST(RoundTrip, OfRecordingsThroughCsv) { expect_back("csv", "job.csv"); }
TEST(RoundTrip, OfRecordingsThroughChakra) { expect_back("chakra", "job"); }

TEST(RoundTrip, OfRecordingsThroughOtf2) {
  const char* const binary = std::getenv("COMMLENS_BINARY");
  const std::filesystem::path directory =
      std::filesystem::path(binary == nullptr ? "." : binary).parent_path();
  if (!std::filesystem::exists(directory / "libcommlens-otf2.so")) {
    GTEST_SKIP() << "this build has no OTF2";
  }
  setenv("COMMLENS_MODULE_PATH", directory.c_str(), 1);
  expect_back("otf2", "job.otf2");
}

}  // namespace
}  // namespace commlens
