#include "commlens/cli/progress.hpp"

#include <sstream>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(ProgressLine, ShowsTheTimeLeftOrTheTimeTaken) {
  EXPECT_EQ(progress_line("writing", 25, 100, 3.0), "writing  25 %  9 s left");
  EXPECT_EQ(progress_line("writing", 0, 100, 3.0), "writing  3 s");
  EXPECT_EQ(progress_line("reading x", 0, 0, 5.0), "reading x  5 s");
  EXPECT_EQ(progress_line("writing", 120, 100, 3.0), "writing  100 %  0 s left");
}

TEST(Progress, IsSilentForShortWorkAndOffTheTerminal) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, {}, true};
  {
    Progress(console, "x", 1).add(1);
  }
  EXPECT_EQ(err.str(), "");
}

}  // namespace
}  // namespace commlens
