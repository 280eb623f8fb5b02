#include "commlens/report/figure_files.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace commlens {
namespace {

Figure small_figure() {
  Figure figure;
  figure.id = "sizes";
  figure.title = "Sizes <b>";
  figure.caption = "All \"ranks\"";
  figure.kind = FigureKind::bars;
  figure.options = {{"category", std::string("op")},
                    {"stacked", true},
                    {"ranks", std::int64_t{4}},
                    {"toggles", std::vector<std::string>{"calls", "time_ns"}},
                    {"iterations", std::vector<std::int64_t>{-1, 0}}};
  figure.notes = {"Some were left out."};
  FigureColumn op = text_column("op", "op");
  texts(op).add("all_reduce, x4");
  texts(op).add("say \"x\"");
  FigureColumn calls = whole_column("calls", "calls");
  wholes(calls) = {3, 4};
  FigureColumn time = number_column("time_ns", "time", "ns");
  numbers(time) = {1.5, std::numeric_limits<double>::quiet_NaN()};
  figure.columns = {std::move(op), std::move(calls), std::move(time)};
  return figure;
}

TEST(FigureFiles, JsonHoldsEverythingAndNullsWhereThereIsNoValue) {
  EXPECT_EQ(figure_json(small_figure()), R"({
 "schema": "commlens.figure/1",
 "id": "sizes",
 "title": "Sizes <b>",
 "caption": "All \"ranks\"",
 "kind": "bars",
 "notes": ["Some were left out."],
 "options": {"category":"op","stacked":true,"ranks":4,"toggles":["calls","time_ns"],"iterations":[-1,0]},
 "rows": 2,
 "columns": [
  {"name": "op", "title": "op", "unit": "", "values": ["all_reduce, x4","say \"x\""]},
  {"name": "calls", "title": "calls", "unit": "", "values": [3,4]},
  {"name": "time_ns", "title": "time", "unit": "ns", "values": [1.5,null]}
 ]
}
)");
}

TEST(FigureFiles, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(figure_csv(small_figure()), "op,calls,time_ns\n\"all_reduce, x4\",3,1.5\n\"say \"\"x\"\"\",4,\n");
}

}  // namespace
}  // namespace commlens
