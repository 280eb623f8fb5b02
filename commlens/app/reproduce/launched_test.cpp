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

// Each is the line of a connection, [1,1] to 2, but for one thing.
TEST(LaunchedStages, SayNothingOfOutputThatIsNotTheTrainings) {
  const std::string begin = "[1,0]<stdout>:iteration     loss\n";
  const std::string line =
      "[1,1]<stderr>:[vm:7] btl: tcp: attempting to connect() to [[1393,1],2] address 127.0.0.1\n";
  const auto pairs_of = [](const std::string& text) {
    std::istringstream output(text);
    return connections_made(output);
  };
  ASSERT_EQ(pairs_of(begin + line), (RankPairs{{Rank{1}, Rank{2}}}));
  for (const std::string& text : {
           line + begin,                                          // before the training
           "iteration     loss\n" + line,                         // of no rank's output
           "[1,0]<stderr>:iteration     loss\n" + line,           // not printed by the training
           begin + line.substr(line.find("[vm")),                 // from no rank
           begin + "[1,x]" + line.substr(line.find("<stderr>")),  // from no number
           begin + "[1,1]<stderr>:attempting to connect() to nobody\n",
           begin + "[1,1]<stderr>:attempting to connect() to [[1393,1],x] address\n",
           begin + "[1,1]<stderr>:attempting to connect() to [[1393,2],2] address\n",  // of another job
       }) {
    EXPECT_TRUE(pairs_of(text).empty()) << text;
  }
}

}  // namespace
}  // namespace commlens::study
