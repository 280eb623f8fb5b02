// The help texts of verbs about times: commlens VERB --help >tests/cli/VERB_help.txt
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace commlens {
namespace {

class VerbOfTimes : public ::testing::TestWithParam<const char*> {};

TEST_P(VerbOfTimes, HasItsHelpAsWritten) {
  const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
  const std::ifstream file(std::string(source == nullptr ? "." : source) + "/tests/cli/" + GetParam() +
                           "_help.txt");
  std::ostringstream golden;
  golden << file.rdbuf();
  const Answer answer = commlens_with({GetParam(), "--help"});
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.out, golden.str());
}

INSTANTIATE_TEST_SUITE_P(Verbs, VerbOfTimes,
                         ::testing::Values("bench", "machines", "cost", "calibrate", "doctor", "simulate",
                                           "search", "replay", "tune", "reproduce"));

}  // namespace
}  // namespace commlens
