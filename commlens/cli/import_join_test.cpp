#include <cstdint>
#include <map>
#include <string>

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

std::string logged(int rank, const std::string& function, int count, int type, int root = 0) {
  return fmt::format(
      "host:{}:9 [{}] NCCL INFO {}: opCount 0 sendbuff 0x1 recvbuff 0x2 count {} datatype {} op 0 root {} "
      "comm 0x{} [nranks={}] stream 0x5\n",
      100 + rank, rank, function, count, type, root, 10 + rank, k_logged_ranks);
}

/// Tells which rank the lines of `logged` are of, and that its job has four.
std::string rank_line(int rank) {
  return fmt::format(
      "host:{}:9 [{}] NCCL INFO ncclCommInitRank comm 0x{} rank {} nranks {} cudaDev {} busId 1b000 commId "
      "0xc0ffee - Init START\n",
      100 + rank, rank, 10 + rank, rank, k_logged_ranks, rank);
}

/// One call before all others, then twice a gather of 100 bf16 and a reduction of 50 fp32, on all of four
/// ranks. `says_ranks`: with the lines that tell them.
std::string log_of(int rank, bool says_ranks = true) {
  std::string text = says_ranks ? rank_line(rank) : "";
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
                   int group, const std::string& more = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": 7, "ts": {}, "dur": 5, "args": {{
          "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": {}, "dtype": "{}",
          "Process Group Name": "0"{}}}}})",
      start, collective, in, out, group, type, more);
}

constexpr const char* k_rank_2 = R"("distributedInfo": {"rank": 2, "world_size": 4},)";

std::string profile_of(const std::string& events, const std::string& job = k_rank_2) {
  return fmt::format(R"({{"schemaVersion": 1, {} "traceEvents": [{}]}})", job, events);
}

/// One of the two logged steps, which are alike, as rank 2 of four or as one that does not say which.
std::string profile(const std::string& job = k_rank_2, int reduced = 50) {
  return profile_of(kernel(1000, "_allgather_base", 100, 400, "BFloat16", 4) + "," +
                        kernel(2000, "allreduce", reduced, reduced, "Float", 4),
                    job);
}

const std::map<std::string, std::int64_t> k_first_of_two = {
    {"place of the profile in the log, the first of 2", 1}};

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

// Of the five logged calls of each of four ranks the profile covers two, so twelve are left out. Which of the
// two steps they are nothing says: the first is taken.
TEST_F(ImportJoin, GivesTheProfiledPartOfTheLogTheProfilesTimes) {
  const Outcome imported = import(profile(), log_of_all());
  ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
  EXPECT_NE(
      imported.out.find("job: 8 calls, 4 ranks; skipped: 12 logged calls that the profile does not cover; "
                        "assumed: 1 place of the profile in the log, the first of 2\n"),
      std::string::npos)
      << imported.out;
  const Trace trace = read();
  ASSERT_EQ(trace.streams.size(), 4U);
  for (const RankStream& stream : trace.streams) {
    EXPECT_EQ(calls_text(trace, stream), "all_gather 400 all_reduce 50 ") << stream.ranks.first.value;
    EXPECT_EQ(stream.times.size(), stream.ranks.first == Rank{2} ? 2U : 0U);
  }
  EXPECT_EQ(trace.streams[2].times.back().started.count(), 2'000'000);
  EXPECT_EQ(trace.provenance.assumed, k_first_of_two);
}

TEST_F(ImportJoin, AssumesNothingWhereTheProfileFitsOnce) {
  const std::string both = kernel(1000, "allreduce", 64, 64, "Float", 4) + "," +
                           kernel(2000, "_allgather_base", 100, 400, "BFloat16", 4);
  ASSERT_EQ(import(profile_of(both), log_of_all()).code, ExitCode::done);
  EXPECT_TRUE(read().provenance.assumed.empty());
}

// The same bytes of bf16 and of fp16: the second are meant.
TEST_F(ImportJoin, FindsCallsByTheirType) {
  const std::string log = rank_line(2) + logged(2, "AllReduce", 50, 9) + logged(2, "AllReduce", 50, 6);
  const Outcome imported = import(profile_of(kernel(1000, "allreduce", 50, 50, "Half", 4)), log);
  ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
  const Trace trace = read();
  ASSERT_EQ(trace.streams.front().events.size(), 1U);
  EXPECT_EQ(trace.op(trace.streams.front().events[0].op).dtype, DType::fp16);
  EXPECT_TRUE(trace.provenance.assumed.empty());
}

// Broadcasts from rank 0 and from rank 3; a profile that tells the root means the second, another one either.
TEST_F(ImportJoin, FindsCallsByTheirRoot) {
  std::string log;
  for (int rank = 0; rank < k_logged_ranks; ++rank) {
    log += rank_line(rank) + logged(rank, "Broadcast", 50, 7, 0) + logged(rank, "Broadcast", 50, 7, 3);
  }
  const std::string ranks = R"(, "Process Group Ranks": "[0, 1, 2, 3]")";
  for (const bool tells : {true, false}) {
    const std::string more = tells ? ranks + R"(, "Rank": 3)" : ranks;
    const Outcome imported = import(profile_of(kernel(1000, "broadcast", 50, 50, "Float", 4, more)), log);
    ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
    const Trace trace = read();
    ASSERT_EQ(trace.streams.size(), 4U);
    const CommOp& op = trace.op(trace.streams[2].events.at(0).op);
    EXPECT_EQ(op.root, GroupRank{tells ? 3 : 0});
    EXPECT_EQ(trace.provenance.assumed, tells ? (std::map<std::string, std::int64_t>()) : k_first_of_two);
  }
}

// The size of the gather is not known, that of the reduction is: the second step is meant.
TEST_F(ImportJoin, ComparesTheSizesThatAreKnown) {
  const std::string log = rank_line(2) + logged(2, "AllGather", 100, 9) + logged(2, "AllReduce", 51, 7) +
                          logged(2, "AllGather", 200, 9) + logged(2, "AllReduce", 50, 7);
  const Outcome imported = import(profile_of(kernel(1000, "_allgather_base", 7, 28, "Unheard", 4) + "," +
                                             kernel(2000, "allreduce", 50, 50, "Float", 4)),
                                  log);
  ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
  EXPECT_NE(imported.out.find("; assumed: 1 call found in the log by all but size\n"), std::string::npos)
      << imported.out;
  const Trace trace = read();
  EXPECT_EQ(calls_text(trace, trace.streams.front()), "all_gather 800 all_reduce 50 ");
}

// The group of the gather is not known, that of the reduction is, and the log has none of two ranks.
TEST_F(ImportJoin, ComparesTheGroupsThatAreKnown) {
  for (const int group : {4, 2}) {
    const std::string both = kernel(1000, "_allgather_base", 100, 400, "BFloat16", 0) + "," +
                             kernel(2000, "allreduce", 50, 50, "Float", group);
    const Outcome imported = import(profile_of(both), log_of(2));
    EXPECT_EQ(imported.code, group == 4 ? ExitCode::done : ExitCode::bad_input);
    const std::string said = group == 4
                                 ? "; assumed: 1 call found in the log by all but size of group, 1 place"
                                 : "all_reduce of 200 to 200 bytes (fp32) on 2 ranks in the profile";
    EXPECT_NE((imported.out + imported.err).find(said), std::string::npos) << imported.out << imported.err;
  }
}

// Rank 3 makes as many calls, of which one is another one.
TEST_F(ImportJoin, GivesIterationsOnlyToRanksThatDoTheSame) {
  std::string log;
  for (int rank = 0; rank < k_logged_ranks; ++rank) {
    log += rank_line(rank) + logged(rank, "AllGather", 100, 9) +
           logged(rank, "AllReduce", rank == 3 ? 9 : 50, 7);
  }
  const Outcome imported = import(
      profile_of(
          R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 9, "tid": 9, "ts": 0,
              "dur": 900},
             {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 100,
              "dur": 5, "args": {"correlation": 1}},
             {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 200,
              "dur": 5, "args": {"correlation": 2}},)" +
          kernel(1000, "_allgather_base", 100, 400, "BFloat16", 4, R"(, "correlation": 1)") + "," +
          kernel(2000, "allreduce", 50, 50, "Float", 4, R"(, "correlation": 2)")),
      log);
  ASSERT_EQ(imported.code, ExitCode::done) << imported.err;
  EXPECT_NE(
      imported.out.find("; skipped: 2 calls of a rank that does not do what the profiled one does, kept "
                        "without its iteration, 3 events of the CPU\n"),
      std::string::npos)
      << imported.out;
  const Trace trace = read();
  ASSERT_EQ(trace.streams.size(), 4U);
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      EXPECT_EQ(event.iteration, stream.ranks.first == Rank{3} ? k_unknown_iteration : 7)
          << stream.ranks.first.value;
    }
  }
}

// A log of one rank that does not say which is that of the profiled one, and a profile that does not say its
// rank is of the rank that its log says.
TEST_F(ImportJoin, NamesTheRankByEitherSide) {
  ASSERT_EQ(import(profile(), log_of(1, false)).code, ExitCode::done);
  EXPECT_EQ(read().streams.front().ranks.first, Rank{2});
  EXPECT_EQ(read().streams.size(), 1U);
  EXPECT_EQ(read().provenance.assumed, k_first_of_two);
  ASSERT_EQ(import(profile(""), log_of(3)).code, ExitCode::done);
  EXPECT_EQ(read().streams.front().ranks.first, Rank{3});
  EXPECT_EQ(read().streams.size(), 1U);
  EXPECT_EQ(read().provenance.assumed, k_first_of_two);
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
  const Outcome imported = import(profile(k_rank_2, 51), log_of_all());
  EXPECT_EQ(imported.code, ExitCode::bad_input);
  EXPECT_NE(imported.err.find(
                "at best call 3 of rank 2 is all_reduce of 200 to 200 bytes (fp32) on 4 ranks in the "
                "log and all_reduce of 204 to 204 bytes (fp32) on 4 ranks in the profile (its call 2)"),
            std::string::npos)
      << imported.err;
}

TEST_F(ImportJoin, RefusesRanksThatDoNotDoTheSame) {
  const std::string log = log_of(0) + log_of(1) + log_of(2) + log_of(3) + logged(3, "AllReduce", 9, 7);
  for (const std::string flag : {"--assume-world", ""}) {
    const Outcome imported = import(profile(), log, flag);
    EXPECT_EQ(imported.code, ExitCode::bad_input);
    EXPECT_NE(imported.err.find(
                  "call 6 of rank 0 is missing, of rank 3 all_reduce of 36 to 36 bytes (fp32) on 4 ranks"),
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
