// Trainings that are followed while they run: one that sends in other buckets than its configuration says is
// an alert that names the setting, as `compare` does; one that sends what is said is none.
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// 3.3 MiB of gradients, in bf16.
const Words k_model = {"19M", "--dp",  "2",  "--layers", "2",   "--hidden",      "256", "--heads",
                       "2",   "--seq", "32", "--vocab",  "256", "--micro-batch", "1"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class PredictedTraining : public TrainerTest {
 protected:
  /// What a watch that began before the training wrote.
  std::vector<Json> events(const Words& bucket) {
    const std::string trace = directory_.path("trace");
    RunningProgram watching(
        Words{commlens_binary(), "watch", trace, "--predict"} + k_model +
            Words{"--framework", "commlens", "--json", "--until-end", "--interval", "100ms"},
        {});
    const Answer training =
        commlens_with(Words{"train"} + k_model + bucket + Words{"--iterations", "300", "-o", trace});
    EXPECT_EQ(training.code, 0) << training.err;
    const Answer answer = watching.wait();
    code_ = answer.code;
    std::vector<Json> found;
    std::istringstream lines(answer.out);
    for (std::string line; std::getline(lines, line);) {
      found.push_back(Json::parse(line));
    }
    return found;
  }

  int code_ = -1;
};

TEST_F(PredictedTraining, ThatSendsInOtherBucketsFires) {
  std::vector<Json> alerts;
  for (const Json& event : events({"--bucket", "1MiB"})) {
    if (event.at("event") == "alert") {
      alerts.push_back(event.at("alert"));
    }
  }
  ASSERT_EQ(alerts.size(), 1U);
  EXPECT_EQ(alerts[0].at("kind"), "volume");
  const std::string text = alerts[0].at("sentence");
  EXPECT_NE(text.find("it looks as if --bucket were 1MiB"), std::string::npos) << text;
  EXPECT_EQ(code_, 1);
}

TEST_F(PredictedTraining, ThatSendsWhatIsSaidFiresNone) {
  Json last;
  for (const Json& event : events({})) {
    EXPECT_NE(event.at("event"), "alert") << event;
    last = event.at("event") == "state" ? event : last;
  }
  EXPECT_EQ(code_, 0);
  EXPECT_GT(last.at("prediction").at("iteration_count"), 0);
  EXPECT_EQ(last.at("prediction").at("error"), nullptr);
  EXPECT_EQ(last.at("prediction").at("resized_calls_all_ranks"), 0);
  EXPECT_EQ(last.at("prediction").at("calls_only_a_all_ranks"), 0);
  EXPECT_EQ(last.at("prediction").at("calls_only_b_all_ranks"), 0);
}

}  // namespace
}  // namespace commlens
