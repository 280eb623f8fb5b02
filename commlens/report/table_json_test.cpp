#include "commlens/report/table_json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/report/figures/figure.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

Table gather_and_send() {
  Table table(columns({"op", Column{.key = "name", .optional = true}, "calls_all_ranks",
                       Column{.key = "p50_ns", .json = "time.p50_ns"}, "share_of_time",
                       Column{.key = "model", .in_json = false}, Column{.title = "for people only"}}));
  table.add({"other", "Gather", 3, std::chrono::nanoseconds(20), 0.5, "19M", "x"});
  table.add({"send", {}, 1, {}, {}, "19M", "y"});
  return table;
}

TEST(TableJson, GroupsByPathAndLeavesOptionalKeysOut) {
  EXPECT_EQ(rows_json(gather_and_send()).dump(),
            R"([{"op":"other","name":"Gather","calls_all_ranks":3,"time":{"p50_ns":20},"share_of_time":0.5},)"
            R"({"op":"send","calls_all_ranks":1,"time":{"p50_ns":null},"share_of_time":null}])");
}

TEST(FigureColumns, HaveTheValuesOfATable) {
  const std::vector<FigureColumn> made =
      figure_columns(gather_and_send().picked({"op", "p50_ns", "share_of_time"}));
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0].plain(1), "send");
  EXPECT_EQ(made[1].unit, "ns");
  EXPECT_EQ(made[1].plain(0), "20");
  EXPECT_EQ(made[1].cell(1), "-");
  EXPECT_EQ(made[2].cell(0), "50.0 %");
}

TEST(Columns, TakeTitleUnitAndScopeFromTheVocabulary) {
  const std::vector<Column> made = columns({"message_bytes_all_ranks", Column{"group_size", "members"}});
  EXPECT_EQ(made[0].title, "message bytes");
  EXPECT_EQ(made[0].unit, ColumnUnit::bytes);
  EXPECT_EQ(made[0].scope, ColumnScope::all_ranks);
  EXPECT_EQ(made[1].title, "members");
  EXPECT_EQ(column_of(CommKind::send, "OP_calls_rank_0").key, "send_calls_rank_0");
}

}  // namespace
}  // namespace commlens
