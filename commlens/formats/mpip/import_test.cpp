#include "commlens/formats/mpip/import.hpp"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats::mpip {
namespace {

using test_support::ScratchDirectory;

Result<Trace> read_report(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("a.out.4.1.mpiP", text));
}

/// Calls in a row that are alike: "rank 0: send(Send) 6000+-0 x80 [site 5 a.c:1 main]".
std::vector<std::string> reported_calls(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::string> calls;
  for (const RankStream& stream : trace->streams) {
    for (std::size_t row = 0; row < stream.events.size();) {
      std::size_t end = row;
      while (end < stream.events.size() && stream.events[end].op == stream.events[row].op) {
        ++end;
      }
      const CommOp& op = trace->op(stream.events[row].op);
      const std::string& name = trace->names.text(op.name);
      calls.push_back(fmt::format("rank {}: {}{} {}+-{} x{} [{}]", stream.ranks.first.value, name_of(op.kind),
                                  name.empty() ? "" : "(" + name + ")", op.input.value, op.rounding.value,
                                  end - row, trace->names.text(op.site)));
      row = end;
    }
  }
  return calls;
}

using ReportedCalls = std::vector<std::string>;

// Synthetic, by mpiP 3.5 report.c; the numbers of site 5 are those of its user's guide.
constexpr std::string_view k_report_start =
    "@ mpiP\n@ Command : ./a.out \n@ Version                  : 3.5.0\n\n"
    "---------------------------------------------------------------------------\n"
    "@--- MPI Time (seconds) ---------------------------------------------------\n"
    "---------------------------------------------------------------------------\n"
    "Task    AppTime    MPITime     MPI%\n   0       9.51      0.168     1.76\n   *       38.1      0.783    "
    " 2.06\n"
    "---------------------------------------------------------------------------\n"
    "@--- Callsites: 3 ---------------------------------------------------------\n"
    "---------------------------------------------------------------------------\n"
    " ID Lev File/Address        Line Parent_Funct             MPI_Call\n"
    "  1   0 timing.c             338 hypre_PrintTiming        Allreduce\n"
    "  1   1 amg.c                421 main\n"
    "  5   0 0x00000000004011d6                     [unknown]  Send\n"
    "  6   0 a b.c                 12 f                        Barrier\n";
constexpr std::string_view k_times =
    "---------------------------------------------------------------------------\n"
    "@--- Callsite Time statistics (all, milliseconds): 8 ----------------------\n"
    "---------------------------------------------------------------------------\n"
    "Name              Site Rank  Count      Max     Mean      Min   App%   MPI%\n";
constexpr std::string_view k_sent =
    "---------------------------------------------------------------------------\n"
    "@--- Callsite Message Sent statistics (all, sent bytes) -------------------\n"
    "---------------------------------------------------------------------------\n"
    "Name              Site Rank   Count       Max      Mean       Min       Sum\n";
constexpr std::string_view k_report_end =
    "---------------------------------------------------------------------------\n"
    "@--- End of Report --------------------------------------------------------\n"
    "---------------------------------------------------------------------------\n";

std::string report(std::string_view times, std::string_view sent) {
  return fmt::format("{}{}{}{}{}{}", k_report_start, k_times, times, k_sent, sent, k_report_end);
}

TEST(Mpip, ReadsCallsPerSiteAndRank) {
  const Result<Trace> trace =
      read_report(report("Allreduce            1    0      2   0.0138   0.0138   0.0138   0.00   0.01\n"
                         "Allreduce            1    *      2   0.0143   0.0137    0.013   0.00   0.01\n\n"
                         "Barrier              6    1      7   0.0138   0.0138   0.0138   0.00   0.01\n"
                         "Recv                 7    1     80   0.0138   0.0138   0.0138   0.00   0.01\n"
                         "Waitall              8    1      3   0.0138   0.0138   0.0138   0.00   0.01\n"
                         "Send                 5    1     80   0.0138   0.0138   0.0138   0.00   0.01\n",
                         "Allreduce            1    0       2         8         8         8        16\n"
                         "Allreduce            1    *       2         8         8         8        16\n\n"
                         "Send                 5    1      80      6000      6000      6000   4.8e+05\n"
                         "Send                 5    *      80      6000      6000      6000   4.8e+05\n"
                         "Alltoall             9    1       2        64        64        64       128\n"));
  EXPECT_EQ(reported_calls(trace),
            (ReportedCalls{"rank 0: all_reduce(Allreduce) 8+-0 x2 [site 1 timing.c:338 hypre_PrintTiming]",
                           "rank 1: send(Send) 6000+-0 x80 [site 5 0x00000000004011d6 [unknown]]",
                           "rank 1: other(Alltoall) 64+-0 x2 [site 9]",
                           "rank 1: barrier(Barrier) 0+-0 x7 [site 6 a b.c 12 f]"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"receive (the report has no size of it)", 80},
                                                 {"call that sends nothing", 3}}));
}

TEST(Mpip, KeepsCallsThatSentNothingBesideThoseThatDid) {
  // Ten broadcasts of which seven had 100 bytes, five exchanges of which two sent; a sent row may come first.
  const Result<Trace> trace =
      read_report(report("Bcast     1  0  10  0.01  0.01  0.01  1.00  1.00\n"
                         "Alltoall  9  0   5  0.01  0.01  0.01  1.00  1.00\n"
                         "Bcast     1  1   4  0.01  0.01  0.01  1.00  1.00\n",
                         "Bcast     1  0   7  100  100  100  700\n"
                         "Bcast     1  1   4  100  100  100  400\n"
                         "Alltoall  9  0   2   64   64   64  128\n"));
  EXPECT_EQ(reported_calls(trace),
            (ReportedCalls{"rank 0: broadcast(Bcast) 100+-0 x7 [site 1 timing.c:338 hypre_PrintTiming]",
                           "rank 0: other(Alltoall) 64+-0 x2 [site 9]",
                           "rank 0: broadcast(Bcast) 0+-0 x3 [site 1 timing.c:338 hypre_PrintTiming]",
                           "rank 1: broadcast(Bcast) 100+-0 x4 [site 1 timing.c:338 hypre_PrintTiming]"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped, (std::map<std::string, std::int64_t>{{"call that sends nothing", 3}}));
}

TEST(Mpip, KeepsExactSumsOfCallsOfDifferentSizes) {
  // 4 to 9 bytes, 20 in three calls: 6, 7, 7; the truth may be 3 below or above: 7 - 4 = 3, 9 - 6 = 3.
  EXPECT_EQ(reported_calls(read_report(report("", "Isend 5 0 3 9 6.667 4 20\n"))),
            (ReportedCalls{"rank 0: send(Isend) 6+-3 x1 [site 5 0x00000000004011d6 [unknown]]",
                           "rank 0: send(Isend) 7+-3 x2 [site 5 0x00000000004011d6 [unknown]]"}));
  // Option -e prints all digits.
  EXPECT_EQ(reported_calls(
                read_report(report("", "Isend 5 0 2 131072.0000 131072.0000 131072.0000 262144.0000\n"))),
            (ReportedCalls{"rank 0: send(Isend) 131072+-0 x2 [site 5 0x00000000004011d6 [unknown]]"}));
}

TEST(Mpip, ReportsWhichCallsReturnAtOnce) {
  const auto is_blocking = [](std::string_view call) {
    const Result<Trace> trace = read_report(report("", fmt::format("{} 5 0 1 8 8 8 8\n", call)));
    return trace.value().ops().at(0).blocking.value();
  };
  for (const char* const call : {"Send", "Rsend", "Allreduce", "Reduce"}) {
    EXPECT_TRUE(is_blocking(call)) << call;
  }
  for (const char* const call : {"Isend", "Iallreduce", "Put", "Accumulate"}) {
    EXPECT_FALSE(is_blocking(call)) << call;
  }
}

TEST(Mpip, GivesRoundedSizesTheirUncertainty) {
  // 1.311e+05 is 131050 to 131150; 2.621e+05 in two calls is 131050 each: the truth is within 100.
  EXPECT_EQ(reported_calls(read_report(report("", "Isend 5 0 2 1.311e+05 1.311e+05 1.311e+05 2.621e+05\n"))),
            (ReportedCalls{"rank 0: send(Isend) 131050+-100 x2 [site 5 0x00000000004011d6 [unknown]]"}));
}

TEST(Mpip, CountsRowsThatAreCutOffOrContradictThemselves) {
  const Result<Trace> trace = read_report(report("",
                                                 "Send 5 0 1 8 8 8 8\n"
                                                 "Send 5 1 1 8 8 9 8\n"    // the smallest is the larger
                                                 "Send 5 2 1 8 8 8 800\n"  // one call of 8 bytes
                                                 "Send 5 99999999 1 8 8 8 8\n"
                                                 "Send 5 3 1 8e+30 8 8 8\n"
                                                 "Send 5 4 1 8\n"));
  EXPECT_EQ(reported_calls(trace),
            ReportedCalls{"rank 0: send(Send) 8+-0 x1 [site 5 0x00000000004011d6 [unknown]]"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"row that is cut off or impossible", 5}}));
}

TEST(Mpip, RefusesReportsWithoutRanksAndDamagedCounts) {
  EXPECT_NE(reported_calls(read_report(report("", "Send 5 * 80 6000 6000 6000 4.8e+05\n")))[0].find(
                "no statistics per call site and rank, only their sums; run without the options -c and -d"),
            std::string::npos);
  EXPECT_NE(reported_calls(read_report(report("", "")))[0].find("no statistics per call site and rank;"),
            std::string::npos);
  EXPECT_NE(
      reported_calls(read_report(report("", "Send 5 0 50000001 0 0 0 0\n")))[0].find("more than 50000000"),
      std::string::npos);
}

// As mpiP 3.5 report.c prints it (mpiPi_profile_print_concise): every number a whole one, so that a row has
// the shape of "name site rank count max mean min sum" of a whole report.
constexpr std::string_view k_concise =
    "@ mpiP\n@ Version                  : 3.5.0\n\n"
    "---------------------------------------------------------------------------\n"
    "@--- Callsite Time statistics (all callsites, milliseconds): 2 ------------\n"
    "---------------------------------------------------------------------------\n"
    "Name              Site   Tasks       Max      Mean       Min MaxRnk MinRnk\n"
    "Barrier              6       4        70        50        30      2      0\n"
    "Send                 5       2        12        11        10      1      0\n"
    "---------------------------------------------------------------------------\n"
    "@--- Callsite Message Sent statistics (all callsites, sent bytes): 2 ------\n"
    "---------------------------------------------------------------------------\n"
    "Name              Site   Tasks       Max      Mean       Min MaxRnk MinRnk\n"
    "Send                 5       2      6000      6000      6000      1   6000\n"
    "Bcast                7       3         3         2         1      2      3\n";

TEST(Mpip, RefusesConciseReportsWhoseColumnsAreOthers) {
  for (const std::string_view text :
       {k_concise, k_concise.substr(0, k_concise.find("@--- Callsite Message"))}) {
    EXPECT_NE(
        reported_calls(read_report(text))[0].find(
            "a concise report (mpiP's option -c) has the total bytes and milliseconds of a rank at each "
            "call site, but not how many calls they were; run without -c"),
        std::string::npos);
  }
}

TEST(Mpip, SurvivesEveryCut) {
  const std::string text = report("Barrier 6 1 7 0.01 0.01 0.01 0.0 0.1\n", "Isend 5 0 3 9 6.667 4 20\n");
  for (std::size_t size = 0; size <= text.size(); size += 3) {
    static_cast<void>(read_report(text.substr(0, size)));
  }
}

}  // namespace
}  // namespace commlens::formats::mpip
