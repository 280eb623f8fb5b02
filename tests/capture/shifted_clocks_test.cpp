// Recordings of real jobs in which the clocks of some ranks were moved by an hour, one way or the other:
// `hang` and `watch` say of them what they say of the job.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/trace/stream_layout.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t k_hour = 3'600'000'000'000;  // ns
constexpr std::array<std::int64_t, 4> k_ahead = {k_hour, 0, -k_hour, k_hour};

/// Moves the times of all calls of a rank, and the place of its clock against the wall clock.
void shift_rank(const fs::path& trace, std::int64_t rank, std::int64_t by_ns) {
  const fs::path stream = trace / fmt::format("rank-{}.bin", rank);
  std::string bytes = content_of(stream);
  ASSERT_GT(bytes.size(), sizeof(StreamHeader)) << stream;
  std::int64_t moved = 0;
  for (std::size_t at = sizeof(StreamHeader); at + sizeof(StreamRecord) <= bytes.size();
       at += sizeof(StreamRecord)) {
    StreamRecord record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    if (record.op_number > 0 && record.started_ns != k_no_time) {
      record.started_ns += by_ns;
      std::memcpy(bytes.data() + at, &record, sizeof record);
      ++moved;
    }
  }
  ASSERT_GT(moved, 0) << stream;
  std::ofstream(stream, std::ios::binary) << bytes;

  const fs::path tables = trace / fmt::format("rank-{}.jsonl", rank);
  const std::string text = content_of(tables);
  const std::size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos) << tables;
  Json line = Json::parse(text.substr(0, end));
  Json& offset = line.at("clock").at("wall_offset_ns");
  offset = offset.get<std::int64_t>() - by_ns;
  std::ofstream(tables, std::ios::binary) << line.dump() << text.substr(end);
}

void shift_copy(const fs::path& trace, const fs::path& copy) {
  fs::copy(trace, copy);
  for (std::size_t rank = 0; rank < k_ahead.size(); ++rank) {
    if (k_ahead[rank] != 0) {
      ASSERT_NO_FATAL_FAILURE(shift_rank(copy, static_cast<std::int64_t>(rank), k_ahead[rank]));
    }
  }
}

struct ShiftedFault {
  std::string mpi;
  std::string name;
  std::string verdict;
  std::vector<std::int64_t> culprits;
};

std::ostream& operator<<(std::ostream& out, const ShiftedFault& fault) {
  return out << fault.mpi << " " << fault.name;
}

/// Runs the fault until it is made, waits for the copy, looks at it, and ends the job.
std::string script_with_copy(const ShiftedFault& fault) {
  const JobOptions options = {.mpi = fault.mpi, .ranks = 4};
  return fmt::format(
      R"({} {} {}/faults_{} {} & job=$!
for try in $(seq 300); do [ -e faulty ] && break; sleep 0.1; done
sleep 0.3
"$COMMLENS_BINARY" hang trace --unchanged-for 0.5 --format json >found.json
: >looked
for try in $(seq 300); do [ -e copied ] && break; sleep 0.1; done
"$COMMLENS_BINARY" hang shifted --unchanged-for 0.5 --format json >shifted.json; echo $? >code
"$COMMLENS_BINARY" watch shifted --once --json --hang-after 0.5 >watched.json
kill -TERM $job; wait $job)",
      recording(options), launcher(options), COMMLENS_CAPTURE_PROGRAMS, fault.mpi, fault.name);
}

class ShiftedJob : public testing::TestWithParam<ShiftedFault> {};

TEST_P(ShiftedJob, IsExplainedByTheSameRanks) {
  const ShiftedFault& fault = GetParam();
  if (!has_mpi(fault.mpi)) {
    GTEST_SKIP() << "no mpirun of " << fault.mpi;
  }
  const JobDirectory directory;
  const std::string script = script_with_copy(fault);
  std::future<RecordedJob> running = std::async(std::launch::async, [&] { return directory.run(script); });
  const fs::path looked = directory.path() / "looked";
  while (!fs::exists(looked) &&
         running.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
  }
  shift_copy(directory.trace(), directory.path() / "shifted");
  std::ofstream(directory.path() / "copied").close();
  const RecordedJob job = running.get();
  ASSERT_FALSE(HasFatalFailure()) << job.err;
  ASSERT_EQ(content_of(directory.path() / "code"), "1\n") << job.err;

  const auto expect_found = [&](const Json& found, const char* of) {
    EXPECT_EQ(found.at("verdict"), fault.verdict) << of << found;
    std::vector<std::int64_t> culprits;
    for (const Json& culprit : found.at("culprits")) {
      culprits.push_back(culprit.at("rank"));
    }
    EXPECT_EQ(culprits, fault.culprits) << of << found;
  };
  expect_found(Json::parse(content_of(directory.path() / "found.json")), "the job: ");
  expect_found(Json::parse(content_of(directory.path() / "shifted.json")), "shifted: ");
  expect_found(Json::parse(content_of(directory.path() / "watched.json")).at("hang"), "watched: ");
}

INSTANTIATE_TEST_SUITE_P(Faults, ShiftedJob,
                         testing::Values(ShiftedFault{"openmpi", "pause", "missing", {2}},
                                         ShiftedFault{"openmpi", "deadlock", "deadlock", {0, 1, 2, 3}},
                                         ShiftedFault{"openmpi", "count", "mismatch", {2}},
                                         ShiftedFault{"mpich", "circle", "deadlock", {2, 3}}),
                         [](const auto& test) { return test.param.mpi + "_" + test.param.name; });

/// The share of blocks in which each rank was late, by its number.
std::vector<Json> late_shares(const JobDirectory& directory, const std::string& trace) {
  const RecordedJob watched =
      directory.run(fmt::format("\"$COMMLENS_BINARY\" watch {} --once --json", trace));
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
  std::vector<Json> shares;
  const Json state = Json::parse(watched.out);
  for (const Json& row : state.at("rank_rows")) {
    shares.push_back(row.at("late_share"));
  }
  return shares;
}

TEST(ShiftedSlowRank, HasTheSameScore) {
  const std::string mpi = has_mpi("openmpi") ? "openmpi" : "mpich";
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun";
  }
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(fmt::format("{}/slow_{}", COMMLENS_CAPTURE_PROGRAMS, mpi), {.mpi = mpi, .ranks = 4});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  ASSERT_NO_FATAL_FAILURE(shift_copy(directory.trace(), directory.path() / "shifted"));
  const std::vector<Json> scores = late_shares(directory, "trace");
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_GE(scores[2].get<double>(), 0.5);
  EXPECT_EQ(late_shares(directory, "shifted"), scores);
}

}  // namespace
}  // namespace commlens::test
