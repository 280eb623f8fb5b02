#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

// `import` of the profile of one rank and the NCCL log of its job.

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

constexpr int k_logged_ranks = 4;

std::string logged(int rank, const std::string& function, int count, int type) {
  return fmt::format(
      "host:{}:9 [{}] NCCL INFO {}: opCount 0 sendbuff 0x1 recvbuff 0x2 count {} datatype {} op 0 root 0 "
      "comm "
      "0x{} [nranks={}] stream 0x5\n",
      100 + rank, rank, function, count, type, 10 + rank, k_logged_ranks);
}

/// One call before all others, then twice a gather of 100 bf16 and a reduction of 50 fp32, on all of four
/// ranks. `says_ranks`: with the lines that tell them.
std::string log_of(int rank, bool says_ranks = true) {
  std::string text;
  if (says_ranks) {
    text = fmt::format(
        "host:{}:9 [{}] NCCL INFO ncclCommInitRank comm 0x{} rank {} nranks {} cudaDev {} busId 1b000 commId "
        "0xc0ffee - Init START\n",
        100 + rank, rank, 10 + rank, rank, k_logged_ranks, rank);
  }
  text += logged(rank, "AllReduce", 64, 7);
  for (int step = 0; step < 2; ++step) {
    text += logged(rank, "AllGather", 100, 9) + logged(rank, "AllReduce", 50, 7);
  }
  return text;
}

std::string log_of_all() {
  std::string text;
  for (int rank = 0; rank < k_logged_ranks; ++rank) {
    text += log_of(rank);
  }
  return text;
}

std::string kernel(int start, const std::string& collective, int in, int out, const std::string& type,
                   int group) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": 7, "ts": {}, "dur": 5, "args": {{
          "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": {}, "dtype": "{}",
          "Process Group Name": "0"}}}})",
      start, collective, in, out, group, type);
}

/// The second of the logged steps, as rank 2 of four or as one that does not say which.
std::string profile(const std::string& job = R"("distributedInfo": {"rank": 2, "world_size": 4},)",
                    int reduced = 50) {
  return fmt::format(R"({{"schemaVersion": 1, {} "traceEvents": [{}, {}]}})", job,
                     kernel(1000, "_allgather_base", 100, 400, "BFloat16", 4),
                     kernel(2000, "allreduce", reduced, reduced, "Float", 4));
}

class ImportJoin : public testing::Test {
 protected:
  Outcome import(const std::string& profile, const std::string& log, const std::string& flag = "") {
    std::vector<std::string> words = {"import", directory_.write("p.json", profile)};
    if (!log.empty()) {
      words.push_back(directory_.write("nccl.log", log));
    }
    words.insert(words.end(), {"-o", (directory_ / "job").string()});
    if (!flag.empty()) {
      words.push_back(flag);
    }
    return run_with(words);
  }
  Trace read() const {
    Result<Trace> trace = read_trace(directory_ / "job");
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? std::move(*trace) : Trace();
  }

 private:
  ScratchDirectory directory_;
};

std::string calls_text(const Trace& trace, const RankStream& stream) {
  std::string text;
  for (const CommEvent& event : stream.events) {
    const CommOp& op = trace.op(event.op);
    text += fmt::format("{} {} ", name_of(op.kind), op.output.value);
  }
  return text;
}

// Of the five logged calls of each of four ranks the profile covers two, so twelve are left out.
TEST_F(ImportJoin, GivesTheProfiledPartOfTheLogTheProfilesTimes) {
  const Outcome imported = import(profile(), log_of_all());
  ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
  EXPECT_NE(
      imported.out.find("job: 8 calls, 4 ranks; skipped: 12 logged calls that the profile does not cover\n"),
      std::string::npos)
      << imported.out;
  const Trace trace = read();
  ASSERT_EQ(trace.streams.size(), 4U);
  for (const RankStream& stream : trace.streams) {
    EXPECT_EQ(calls_text(trace, stream), "all_gather 400 all_reduce 50 ") << stream.ranks.first.value;
    EXPECT_EQ(stream.times.size(), stream.ranks.first == Rank{2} ? 2U : 0U);
  }
  EXPECT_EQ(trace.streams[2].times.back().started.count(), 2'000'000);
  EXPECT_TRUE(trace.provenance.assumed.empty());
}

// A log of one rank that does not say which is that of the profiled one, and a profile that does not say its
// rank is of the rank that its log says.
TEST_F(ImportJoin, NamesTheRankByEitherSide) {
  ASSERT_EQ(import(profile(), log_of(1, false)).code, ExitCode::done);
  EXPECT_EQ(read().streams.front().ranks.first, Rank{2});
  EXPECT_EQ(read().streams.size(), 1U);
  EXPECT_TRUE(read().provenance.assumed.empty());
  ASSERT_EQ(import(profile(""), log_of(3)).code, ExitCode::done);
  EXPECT_EQ(read().streams.front().ranks.first, Rank{3});
  EXPECT_EQ(read().streams.size(), 1U);
  EXPECT_TRUE(read().provenance.assumed.empty());
}

TEST_F(ImportJoin, AssumesTheRanksThatNoFileHas) {
  for (const std::string& log : {log_of(1) + log_of(2), std::string()}) {
    const Outcome imported = import(profile(), log, "--assume-world");
    ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
    const std::string assumed = log.empty() ? "3 ranks (0-1, 3) taken to make the calls of rank 2"
                                            : "2 ranks (0, 3) taken to make the calls of rank 2";
    EXPECT_NE(imported.out.find(assumed), std::string::npos) << imported.out;
    const Trace trace = read();
    ASSERT_EQ(trace.streams.size(), 4U);
    for (const RankStream& stream : trace.streams) {
      EXPECT_EQ(calls_text(trace, stream), "all_gather 400 all_reduce 50 ") << stream.ranks.first.value;
      EXPECT_EQ(stream.times.size(), stream.ranks.first == Rank{2} ? 2U : 0U);
    }
  }
}

TEST_F(ImportJoin, RefusesCallsThatTheLogDoesNotHave) {
  const Outcome imported =
      import(profile(R"("distributedInfo": {"rank": 2, "world_size": 4},)", 51), log_of_all());
  EXPECT_EQ(imported.code, ExitCode::bad_input);
  EXPECT_NE(
      imported.err.find("at best call 3 of rank 2 is all_reduce of 200 to 200 bytes on 4 ranks in the log "
                        "and all_reduce of 204 to 204 bytes on 4 ranks in the profile (its call 2)"),
      std::string::npos)
      << imported.err;
}

TEST_F(ImportJoin, RefusesRanksThatDoNotDoTheSame) {
  const std::string log = log_of(0) + log_of(1) + log_of(2) + log_of(3) + logged(3, "AllReduce", 9, 7);
  for (const std::string flag : {"--assume-world", ""}) {
    const Outcome imported = import(profile(), log, flag);
    EXPECT_EQ(imported.code, ExitCode::bad_input);
    EXPECT_NE(
        imported.err.find("call 6 of rank 0 is missing, of rank 3 all_reduce of 36 to 36 bytes on 4 ranks"),
        std::string::npos)
        << imported.err;
  }
}

// On a group of two of four ranks: which one the others are in, nobody says.
TEST_F(ImportJoin, AssumesNoGroups) {
  const std::string text = fmt::format(
      R"({{"schemaVersion": 1, "distributedInfo": {{"rank": 2, "world_size": 4}}, "traceEvents": [{}]}})",
      kernel(1000, "allreduce", 50, 50, "Float", 2));
  const Outcome imported = import(text, "", "--assume-world");
  EXPECT_EQ(imported.code, ExitCode::bad_input);
  EXPECT_NE(
      imported.err.find("--assume-world: call 1 of rank 2 is all_reduce on 2 of 4 ranks, and no file tells "
                        "which group rank 0 is in; add the log of that rank"),
      std::string::npos)
      << imported.err;
}

TEST_F(ImportJoin, NeedsAProfileToAssumeAWorld) {
  const Outcome imported = import(log_of_all(), "", "--assume-world");
  EXPECT_EQ(imported.code, ExitCode::bad_input);
  EXPECT_NE(
      imported.err.find("--assume-world takes the profile of one rank, with times, and none of the files is"),
      std::string::npos)
      << imported.err;
}

}  // namespace
}  // namespace commlens
