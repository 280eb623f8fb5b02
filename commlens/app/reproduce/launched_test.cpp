#include "commlens/app/reproduce/launched.hpp"

#include <sstream>

#include <gtest/gtest.h>

namespace commlens::study {
namespace {

TEST(LaunchedStages, KnowWhichConnectionsTheTrainingMade) {
  std::istringstream output(
      "[1,0]<stderr>:[vm:27027] btl: tcp: attempting to connect() to [[1393,1],1] address 127.0.0.1 on port "
      "1036\n"
      "[1,0]<stdout>:AdamW, betas 0.9 and 0.95\n"
      "[1,0]<stdout>:iteration     loss     norm       lr\n"
      "[1,1]<stderr>:[vm:27028] btl: tcp: attempting to connect() to [[1393,1],2] address 127.0.0.1 on port "
      "1037\n"
      "[1,2]<stderr>:[vm:27029] btl:tcp: now connected to 127.0.0.1, process [[1393,1],1]\n"
      "[1,0]<stdout>:        0   6.2335   3.0517  6.0e-04\n");
  EXPECT_EQ(connections_made(output), (RankPairs{{Rank{1}, Rank{2}}}));
}

TEST(LaunchedStages, SayNothingOfAnotherProgramsOutput) {
  std::istringstream output("iteration\nattempting to connect() to nobody\n");
  EXPECT_TRUE(connections_made(output).empty());
}

}  // namespace
}  // namespace commlens::study
