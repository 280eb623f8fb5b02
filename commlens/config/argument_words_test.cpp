#include "commlens/config/argument_words.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(ArgumentWords, AreThoseOfAShell) {
  const auto words = argument_words("run.args", "--a 1 \\\n  'two words' # not this\n--b=\"x y\"z");
  ASSERT_TRUE(words) << words.error().message;
  ASSERT_EQ(words->size(), 4U);
  EXPECT_EQ((*words)[1].text, "1");
  EXPECT_EQ((*words)[2].text, "two words");
  EXPECT_EQ((*words)[2].line, 2);
  EXPECT_EQ((*words)[3].text, "--b=x yz");
  EXPECT_EQ((*words)[3].line, 3);
}

TEST(ArgumentWords, NamesHaveUnderscores) {
  EXPECT_EQ(argument_names("--module llama3 --training.local-batch-size=2 -1"),
            (std::vector<std::string>{"module", "training.local_batch_size"}));
  EXPECT_TRUE(argument_names("--a 'open").empty());
}

TEST(ArgumentWords, AnOpenQuoteIsAMistake) {
  EXPECT_EQ(argument_words("run.args", "--a 1\n--b 'x").error().message,
            "run.args:2: the quote is never closed");
}

}  // namespace
}  // namespace commlens
