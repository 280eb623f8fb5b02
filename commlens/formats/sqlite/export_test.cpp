#include "commlens/formats/sqlite/export.hpp"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/sqlite_database.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::sqlite {
namespace {

using std::chrono::nanoseconds;
using test_support::ScratchDirectory;

/// The rows of a query, values separated by "|", NULL as "-".
std::vector<std::string> rows_of_table(const SqliteDatabase& database, const std::string& sql) {
  Result<SqliteStatement> statement = database.prepare(sql);
  if (!statement) {
    return {statement.error().message};
  }
  std::vector<std::string> rows;
  for (Result<bool> more = statement->step(); more.value(); more = statement->step()) {
    std::string row;
    for (int column = 0; column < statement->columns(); ++column) {
      row += column > 0 ? "|" : "";
      row += statement->is_null(column) ? "-" : std::string(statement->text(column));
    }
    rows.push_back(row);
  }
  return rows;
}

/// A rank's calls with the times they have.
struct TimedCall {
  OpId op;
  Iteration iteration;
  std::int64_t started;
  std::int64_t duration;
};

RankStream stream_of(Rank rank, const std::vector<TimedCall>& calls) {
  RankStream stream{{rank, rank}, {}, {}, {}};
  for (const TimedCall& call : calls) {
    stream.events.push_back({call.op, call.iteration, -1});
    stream.times.push_back(
        {nanoseconds(call.started), nanoseconds(call.started), nanoseconds(call.started + call.duration)});
  }
  return stream;
}

/// Two stages of two replicas: rank 0 gives all 40 bytes; then the replicas reduce 1000 fp32, and the first
/// stage sends 512 fp16 to the second. Rank 0 computes from 2000 to 5000 ns.
Trace two_stage_trace() {
  Trace trace;
  const OpId give =
      trace.intern(CommOp{.kind = CommKind::broadcast,
                          .dtype = DType::fp32,
                          .phase = Phase::init,
                          .group = trace.groups.intern({Rank{0}, Rank{1}, Rank{2}, Rank{3}}, Axis::world),
                          .input = Elements{10},
                          .output = Elements{10},
                          .root = GroupRank{0}});
  std::vector<OpId> reduce;
  for (const std::int64_t first : {0, 2}) {
    reduce.push_back(
        trace.intern(CommOp{.kind = CommKind::all_reduce,
                            .dtype = DType::fp32,
                            .phase = Phase::backward,
                            .group = trace.groups.intern({Rank{first}, Rank{first + 1}}, Axis::dp),
                            .input = Elements{1000},
                            .output = Elements{1000}}));
  }
  const auto message = [&](CommKind kind, std::int64_t from) {
    return trace.intern(CommOp{.kind = kind,
                               .dtype = DType::fp16,
                               .phase = Phase::forward,
                               .group = trace.groups.intern({Rank{from}, Rank{from + 2}}, Axis::pp),
                               .input = Elements{kind == CommKind::send ? 512 : 0},
                               .output = Elements{kind == CommKind::send ? 0 : 512}});
  };
  trace.streams = {
      stream_of(Rank{0},
                {{give, -1, 0, 500}, {reduce[0], 0, 1000, 2000}, {message(CommKind::send, 0), 0, 4000, 100}}),
      stream_of(Rank{1},
                {{give, -1, 0, 500}, {reduce[0], 0, 1500, 1500}, {message(CommKind::send, 1), 0, 4000, 300}}),
      stream_of(Rank{2},
                {{give, -1, 0, 500}, {reduce[1], 0, 1000, 1000}, {message(CommKind::recv, 0), 0, 3500, 700}}),
      stream_of(
          Rank{3},
          {{give, -1, 0, 500}, {reduce[1], 0, 1000, 1000}, {message(CommKind::recv, 1), 0, 3500, 900}})};
  trace.streams[0].compute = {{nanoseconds(2000), nanoseconds(5000), 0}};
  trace.provenance.producer = "test";
  trace.provenance.skip("torn line", 3);
  trace.provenance.assume("rank not reported");
  return trace;
}

/// The blocks of SQL in docs/formats/sqlite.md.
std::vector<std::string> documented_queries() {
  const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
  const std::string text = test_support::content_of(std::filesystem::path(source != nullptr ? source : ".") /
                                                    "docs/formats/sqlite.md");
  std::vector<std::string> queries;
  constexpr std::string_view opening = "```sql\n";
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
    at += opening.size();
    queries.push_back(text.substr(at, text.find("```", at) - at));
  }
  return queries;
}

TEST(Sqlite, AnswersTheDocumentedQuestions) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write(two_stage_trace(), {}, directory / "t.db"));
  // Views are off in files of other people's, which this one is not.
  const SqliteDatabase own = SqliteDatabase::create(directory / "t.db");
  const std::vector<std::string> queries = documented_queries();
  ASSERT_EQ(queries.size(), 6U);
  using Rows = std::vector<std::string>;
  // all_reduce of 4000 bytes by two ranks: each sends 2 * 4000 * 1/2.
  EXPECT_EQ(rows_of_table(own, queries[0]),
            (Rows{"dp|all_reduce|4|16000|16000", "pp|send|2|2048|2048", "pp|recv|2|2048|0"}));
  EXPECT_EQ(
      rows_of_table(own, queries[1]),
      (Rows{"0|1|all_reduce|4000|2000|2.0", "1|1|all_reduce|4000|1500|2.667", "2|1|all_reduce|4000|1000|4.0",
            "3|1|all_reduce|4000|1000|4.0", "3|2|recv|1024|900|1.138"}));
  EXPECT_EQ(rows_of_table(own, queries[2]),
            (Rows{"2|all_reduce|1|500|1", "1|broadcast|1|0|0", "5|all_reduce|1|0|2"}));
  EXPECT_EQ(rows_of_table(own, queries[3]), (Rows{"0|2|1|1024|200", "1|3|1|1024|400"}));
  EXPECT_EQ(rows_of_table(own, queries[4]), (Rows{"0|2100|1100", "1|1800|0", "2|1700|0", "3|1900|0"}));
  EXPECT_EQ(rows_of_table(own, queries[5]),
            (Rows{"all_reduce|fp32|4000|4|1000|2000", "broadcast|fp32|40|4|500|500",
                  "recv|fp16|1024|2|700|900", "send|fp16|1024|2|100|300"}));
}

/// Two ranks that reduce on a group whose ranks are not known, or in two groups of the same size.
Trace hidden_group_trace() {
  Trace trace;
  const OpId reduce = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                          .dtype = DType::uint8,
                                          .group = trace.groups.intern_hidden(2, ""),
                                          .input = Elements{100},
                                          .output = Elements{100}});
  trace.streams = {stream_of(Rank{0}, {{reduce, 0, 1000, 10}}),
                   stream_of(Rank{1}, {{reduce, 0, 900000, 10}})};
  return trace;
}

TEST(Sqlite, MatchesNoCallsOfGroupsWhoseRanksAreNotKnown) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write(hidden_group_trace(), {}, directory / "t.db"));
  const SqliteDatabase own = SqliteDatabase::create(directory / "t.db");
  EXPECT_EQ(rows_of_table(own, "SELECT count(*) FROM calls"), std::vector<std::string>{"2"});
  EXPECT_EQ(rows_of_table(own, "SELECT * FROM collectives"), std::vector<std::string>{});
  EXPECT_EQ(rows_of_table(own, documented_queries().at(2)), std::vector<std::string>{});
}

TEST(Sqlite, GivesNoTimesForCallsWithoutTimes) {
  Trace trace = two_stage_trace();
  for (RankStream& stream : trace.streams) {
    stream.times.clear();
    stream.compute.clear();
  }
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "t.db"));
  const SqliteDatabase own = SqliteDatabase::create(directory / "t.db");
  const std::vector<std::string> queries = documented_queries();
  for (const std::size_t about_times : {1U, 2U, 4U}) {
    EXPECT_EQ(rows_of_table(own, queries.at(about_times)), std::vector<std::string>{})
        << queries[about_times];
  }
  using Rows = std::vector<std::string>;  // sizes are known all the same
  EXPECT_EQ(rows_of_table(own, queries.at(3)), (Rows{"0|2|1|1024|-", "1|3|1|1024|-"}));
  // The broadcast of four ranks and the two all_reduces of two still have their numbers.
  EXPECT_EQ(rows_of_table(own, "SELECT count(*), max(number) FROM collectives"),
            std::vector<std::string>{"8|1"});
}

TEST(Sqlite, LeavesOutWhoeverHasNoTimesOfACollective) {
  Trace trace = two_stage_trace();
  trace.streams[1].times.clear();  // of rank 1, on whom rank 0 alone is left in their all_reduce
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "t.db"));
  const SqliteDatabase own = SqliteDatabase::create(directory / "t.db");
  EXPECT_EQ(rows_of_table(own, documented_queries().at(2)),
            (std::vector<std::string>{"1|broadcast|1|0|0", "5|all_reduce|1|0|2"}));
}

TEST(Sqlite, SaysWhereTheTraceComesFromAndWhatItLacks) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write(two_stage_trace(), {}, directory / "t.db"));
  const Result<SqliteDatabase> database = SqliteDatabase::open(directory / "t.db");
  ASSERT_TRUE(database);
  EXPECT_EQ(rows_of_table(*database, "SELECT key, value FROM meta ORDER BY key"),
            (std::vector<std::string>{"accounting|messages", "averaged_times|false", "description|",
                                      "framework|", "job_ranks|4", "producer|test", "ranks|4",
                                      "schema|commlens.sqlite/1", "source|predicted", "verified|true"}));
  EXPECT_EQ(rows_of_table(*database, "SELECT * FROM skipped"), std::vector<std::string>{"torn line|3"});
  EXPECT_EQ(rows_of_table(*database, "SELECT * FROM assumed"),
            std::vector<std::string>{"rank not reported|1"});
}

TEST(Sqlite, GivesEachRankOfAClassItsOwnGroups) {
  Trace trace(Mesh{{Axis::pp, 2}, {Axis::dp, 1}, {Axis::tp, 2}});
  GroupPattern tensor{.axis = Axis::tp};
  tensor.spans = {{Axis::tp, {Span::Shape::all}}};
  const OpId broadcast = trace.intern(CommOp{.kind = CommKind::broadcast,
                                             .dtype = DType::fp32,
                                             .group = trace.groups.intern(tensor),
                                             .input = Elements{1},
                                             .output = Elements{1},
                                             .root = GroupRank{1}});
  trace.streams.push_back({{Rank{0}, Rank{3}}, {{broadcast, -1, -1}, {broadcast, 0, 5}}, {}, {}});
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "t.db"));
  const Result<SqliteDatabase> database = SqliteDatabase::open(directory / "t.db");
  ASSERT_TRUE(database);
  EXPECT_EQ(rows_of_table(
                *database,
                "SELECT calls.rank, sequence, iteration, micro_batch, root, group_id, start_ns FROM calls "
                "JOIN ops ON ops.id = op_id ORDER BY calls.rank, sequence"),
            (std::vector<std::string>{"0|0|-1|-|1|1|-", "0|1|0|5|1|1|-", "1|0|-1|-|1|1|-", "1|1|0|5|1|1|-",
                                      "2|0|-1|-|3|2|-", "2|1|0|5|3|2|-", "3|0|-1|-|3|2|-", "3|1|0|5|3|2|-"}));
  EXPECT_EQ(rows_of_table(*database, "SELECT group_id, position, rank FROM group_members ORDER BY 1, 2"),
            (std::vector<std::string>{"1|0|0", "1|1|1", "2|0|2", "2|1|3"}));
  EXPECT_EQ(rows_of_table(*database, "SELECT count(*) FROM ops"), std::vector<std::string>{"2"});
}

TEST(Sqlite, KeepsTheNameAndSizeOfAGroupWhoseRanksAreNotKnown) {
  Trace trace;
  const OpId reduce = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                          .dtype = DType::uint8,
                                          .group = trace.groups.intern_hidden(4, "comm 0x7f"),
                                          .input = Elements{100},
                                          .output = Elements{100}});
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{reduce, 0, -1}}, {}, {}});
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "t.db"));
  const Result<SqliteDatabase> database = SqliteDatabase::open(directory / "t.db");
  ASSERT_TRUE(database);
  EXPECT_EQ(
      rows_of_table(*database,
                    "SELECT size, groups.name, wire_bytes FROM ops JOIN groups ON group_id = groups.id"),
      std::vector<std::string>{"4|comm 0x7f|150"});  // 2 * 100 * 3/4
  EXPECT_EQ(rows_of_table(*database, "SELECT count(*) FROM group_members"), std::vector<std::string>{"0"});
}

TEST(Sqlite, KeepsCommunicatorsOfTheSameRanksApart) {
  Trace trace;
  for (const std::int64_t rank : {0, 1}) {
    RankStream stream{{Rank{rank}, Rank{rank}}, {}, {}, {}};
    for (const CommunicatorId communicator :
         {CommunicatorId{0x2f}, CommunicatorId{0x30}, k_no_communicator}) {
      const GroupId group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::unknown, communicator);
      stream.events.push_back({trace.intern(CommOp{.kind = CommKind::barrier, .group = group}), 0, -1});
    }
    trace.streams.push_back(std::move(stream));
  }
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "t.db"));
  const Result<SqliteDatabase> database = SqliteDatabase::open(directory / "t.db");
  ASSERT_TRUE(database);
  EXPECT_EQ(
      rows_of_table(*database,
                    "SELECT groups.id, size, communicator, count(*) FROM calls JOIN ops ON op_id = ops.id "
                    "JOIN groups ON group_id = groups.id GROUP BY groups.id ORDER BY groups.id"),
      (std::vector<std::string>{"1|2|0x000000000000002f|2", "2|2|0x0000000000000030|2", "3|2|-|2"}));
}

TEST(Sqlite, KeepsCountsAndBytesWhateverTheTrace) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Trace trace = test_support::RandomTrace(seed).make();
    const ScratchDirectory directory;
    ASSERT_TRUE(write(trace, {}, directory / "t.db")) << "seed=" << seed;
    const Result<SqliteDatabase> database = SqliteDatabase::open(directory / "t.db");
    ASSERT_TRUE(database);
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected;  // calls and input bytes
    for (const RankStream& stream : trace.streams) {
      for (const CommEvent& event : stream.events) {
        const CommOp& op = trace.op(event.op);
        auto& [calls, bytes] = expected[std::string(name_of(op.kind))];
        calls += stream.ranks.count();
        bytes += (op.input * op.dtype).value * stream.ranks.count();
      }
    }
    std::vector<std::string> rows;
    for (const auto& [kind, sums] : expected) {
      rows.push_back(fmt::format("{}|{}|{}", kind, sums.first, sums.second));
    }
    EXPECT_EQ(rows_of_table(*database,
                            "SELECT op, count(*), sum(input_bytes) FROM calls JOIN ops ON ops.id = op_id "
                            "GROUP BY op ORDER BY op"),
              rows)
        << "seed=" << seed;
    EXPECT_EQ(rows_of_table(*database, "PRAGMA integrity_check"), std::vector<std::string>{"ok"});
  }
}

TEST(Sqlite, ThrowsWhereItCannotWrite) {
  const ScratchDirectory directory;
  bool has_thrown = false;
  try {
    (void)write(two_stage_trace(), {}, directory / "no/such/directory.db");
  } catch (const SystemError&) {
    has_thrown = true;
  }
  EXPECT_TRUE(has_thrown);
}

TEST(SqliteDatabase, RefusesWhatIsNoDatabase) {
  const ScratchDirectory directory;
  EXPECT_FALSE(SqliteDatabase::open(directory / "none.db"));
  const Result<SqliteDatabase> text = SqliteDatabase::open(directory.write("t.db", std::string(4096, 'x')));
  const Result<SqliteStatement> statement =
      text ? text->prepare("SELECT * FROM sqlite_master") : tl::unexpected(text.error());
  ASSERT_FALSE(statement);
  EXPECT_NE(statement.error().message.find("not a database"), std::string::npos) << statement.error().message;
}

}  // namespace
}  // namespace commlens::formats::sqlite
