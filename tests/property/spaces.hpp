#pragma once
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"

/// Spaces of random jobs of a framework.
namespace commlens {

/// What a job is drawn from.
class Draws {
 public:
  explicit Draws(std::uint32_t seed) : random_(seed) {}

  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  template <typename Value>
  Value one(std::initializer_list<Value> values) {
    return *(values.begin() + number(0, static_cast<std::int64_t>(values.size()) - 1));
  }

 private:
  std::mt19937 random_;
};

/// Each of so many jobs of a space is predicted, and given to `look` with its plan, or refused in one line.
/// How many were predicted.
template <typename Space, typename Look>
int predicted_jobs(std::uint32_t seed, int jobs, Look look) {
  Space space(seed);
  int predicted = 0;
  for (int number = 0; number < jobs; ++number) {
    SCOPED_TRACE("job " + std::to_string(number) + " of seed " + std::to_string(seed));
    const Result<Job> job = validated(space.job());
    const Result<Plan> plan = job ? make_plan(*job) : Result<Plan>(tl::unexpected(job.error()));
    if (plan) {
      ++predicted;
      look(*job, *plan);
      continue;
    }
    EXPECT_FALSE(plan.error().message.empty());
    EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
  }
  return predicted;
}

}  // namespace commlens
