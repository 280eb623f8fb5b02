// What a figure says of its series.
#include "commlens/app/reproduce/sheet.hpp"

#include <gtest/gtest.h>

namespace commlens::study {
namespace {

using Notes = std::vector<std::string>;

Series simulated(const std::string& name, double above, std::vector<std::string> unmeasured = {}) {
  return {name, Evidence::simulated, "on the machine file m", 0.25, above, std::move(unmeasured)};
}

TEST(SheetNotes, TellSeriesThatDifferInNameAndIntervalTogether) {
  Sheet sheet({"value"});
  sheet.add({"1"}, simulated("A", 0.5, {"latent attention"}));
  sheet.add({"2"}, simulated("B", 1.0, {"latent attention"}));
  sheet.add({"3"}, {"C", Evidence::exact, "an equation"});
  EXPECT_EQ(
      sheet.notes(),
      (Notes{"simulated, on the machine file m, with the 90 % interval of an iteration: A (-25 to +50 %); B "
             "(-25 to +100 %).",
             "Not measured: latent attention (A; B).", "C: exact theory, an equation."}));
  const Notes c = {"C"};
  EXPECT_EQ(sheet.notes(&c), (Notes{"C: exact theory, an equation."}));
}

TEST(SheetNotes, OfOneSeriesHaveAllInOneSentence) {
  Sheet sheet({"value"});
  sheet.add({"1"}, simulated("A", 0.5, {"latent attention"}));
  EXPECT_EQ(sheet.notes(),
            (Notes{"A: simulated, on the machine file m; not measured: latent attention; the 90 % "
                   "interval of an iteration is -25 to +50 % at the widest."}));
  EXPECT_EQ(
      rows_with(sheet.table(), "provenance",
                "on the machine file m; not measured: latent attention; the 90 % interval of an iteration is "
                "-25 to +50 %")
          .rows()
          .size(),
      1U);
}

}  // namespace
}  // namespace commlens::study
