#include "commlens/transport/transport_table.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr std::string_view k_table_head = "op,min_bytes,max_bytes,ranks,transport,algorithm\n";

std::string table_error(std::string_view rows) {
  const Result<TransportTable> table = parse_transport_table(std::string(k_table_head) + std::string(rows));
  return table ? "" : table.error().message;
}

TEST(TransportTable, GivesTheFirstEntryThatFits) {
  const TransportTable table = *parse_transport_table(
      "# for people\n"
      "op,min_bytes,max_bytes,ranks,transport,algorithm\n"
      "all_reduce,0,4KiB,4,mpi,ring\n"
      "\n"
      "all_reduce,1024,,,nccl,\n"
      "send,100,100,2,mpi,\n");
  ASSERT_EQ(table.entries.size(), 3U);
  EXPECT_EQ(table.entries[0].most, Bytes{4096});
  EXPECT_EQ(table.entries[0].algorithm, "ring");
  EXPECT_EQ(table.where(1), "line 5");
  EXPECT_EQ(table.place_of(CommKind::all_reduce, Bytes{4096}, 4), 0U);
  EXPECT_EQ(table.place_of(CommKind::all_reduce, Bytes{4097}, 4), 1U);
  EXPECT_EQ(table.place_of(CommKind::all_reduce, Bytes{1024}, 8), 1U);
  EXPECT_EQ(table.place_of(CommKind::all_reduce, Bytes{1023}, 8), 3U);
  EXPECT_EQ(table.place_of(CommKind::recv, Bytes{100}, 2), 2U);
  EXPECT_EQ(table.place_of(CommKind::send, Bytes{101}, 2), 3U);
}

TEST(TransportTable, IsReadAsItIsWritten) {
  TransportTable table;
  table.entries = {{.kind = CommKind::all_gather,
                    .least = Bytes{10},
                    .most = Bytes{20},
                    .ranks = 4,
                    .transport = "mpi",
                    .algorithm = "ring"},
                   {.kind = CommKind::barrier, .transport = "a,b"}};
  const std::string text = transport_table_text(table, "two\nlines");
  EXPECT_EQ(text,
            "# two\n# lines\nop,min_bytes,max_bytes,ranks,transport,algorithm\nall_gather,10,20,4,mpi,ring\n"
            "barrier,0,,,\"a,b\",\n");
  EXPECT_EQ(parse_transport_table(text)->entries, table.entries);
}

TEST(TransportTable, NamesTheLineOfAnError) {
  EXPECT_EQ(table_error("all_sum,0,,,mpi,\n"),
            "line 2: all_sum is no op; write one such as all_reduce, or send for messages both ways");
  EXPECT_EQ(table_error("recv,0,,,mpi,\n").substr(0, 21), "line 2: recv is no op");
  EXPECT_EQ(table_error("all_reduce,0,,,mpi\n"), "line 2: 5 values for 6 columns");
  EXPECT_EQ(table_error("all_reduce,-1,,,mpi,\n"),
            "line 2: -1 is no size; write bytes, or a size such as 64KiB");
  EXPECT_EQ(table_error("all_reduce,2,1,,mpi,\n"), "line 2: min_bytes 2 are more than max_bytes 1");
  EXPECT_EQ(table_error("all_reduce,0,,1,mpi,\n"),
            "line 2: 1 is no number of ranks; write 2 or more, or nothing for any");
  EXPECT_EQ(table_error("all_reduce,0,,,,\n"), "line 2: no transport; write one, such as mpi");
  EXPECT_EQ(
      table_error("all_reduce,0,,,mpi,\nall_reduce,5,6,4,mpi,ring\n"),
      "line 3: no call is left to this entry: line 2 comes first and takes them all; put it below, or leave "
      "it out");
}

TEST(TransportTable, NamesAColumnThatIsUnknownOrMissing) {
  EXPECT_EQ(parse_transport_table("op,size\n").error().message,
            "line 1: there is no column size; the columns are op, min_bytes, max_bytes, ranks, transport, "
            "algorithm");
  EXPECT_EQ(
      parse_transport_table("").error().message,
      "no column op; the first line names the columns: op,min_bytes,max_bytes,ranks,transport,algorithm");
  EXPECT_TRUE(parse_transport_table("op,min_bytes,max_bytes,ranks,transport\nall_reduce,,,,mpi\n"));
}

}  // namespace
}  // namespace commlens
