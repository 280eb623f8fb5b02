#include "commlens/compare/launch_shift.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace commlens {
namespace {

/// Six launches of five rows, that take 1, 2, 3, 4 and 5 s, in a launch as many times as long as its number
/// (1 to 6); the first row is longer by a factor, and so are all.
std::vector<LaunchTimes> launches_of(double first_row, double all) {
  std::vector<LaunchTimes> launches;
  for (int launch = 1; launch <= 6; ++launch) {
    LaunchTimes& times = launches.emplace_back();
    for (int row = 1; row <= 5; ++row) {
      times.emplace_back(launch * row * all * (row == 1 ? first_row : 1));
    }
  }
  return launches;
}

// The speed of a launch, six times that of another one, is that of all its rows: of the first row 1.2 is
// left, in all of 6 against 6 launches, one of the 924 choices; so it is with the opposite sign. Six tests.
TEST(LaunchShifts, FindARowThatIsSlowerThanTheOthers) {
  const LaunchShifts shifts = launch_shifts(launches_of(1, 1), launches_of(1.2, 1));
  ASSERT_EQ(shifts.relative.size(), 5U);
  EXPECT_NEAR(shifts.relative[0].ratio, 1.2, 1e-9);
  EXPECT_NEAR(shifts.relative[0].p, 2.0 / 924, 1e-9);
  EXPECT_NEAR(shifts.relative[0].p_adjusted, 6 * 2.0 / 924, 1e-9);
  EXPECT_NEAR(shifts.relative[3].ratio, 1, 1e-9);
  EXPECT_NEAR(shifts.all.ratio, 1, 1e-9);
  EXPECT_GT(shifts.all.p, 0.5);
}

// Rows 0 and 1 are 1.2 and 1.3 times as slow: together the root of 1.56, in all of 6 against 6 launches, by
// either of the others.
TEST(LaunchShifts, FindAFamilyThatIsSlowerThanEachOther) {
  std::vector<LaunchTimes> now = launches_of(1.2, 1);
  for (LaunchTimes& times : now) {
    times[1] = *times[1] * 1.3;
  }
  const LaunchShifts shifts = launch_shifts(launches_of(1, 1), now, {{0, 1}, {2}, {3, 4}});
  ASSERT_EQ(shifts.families.size(), 3U);
  EXPECT_NEAR(shifts.families[0]->ratio, std::sqrt(1.2 * 1.3), 1e-9);
  EXPECT_NEAR(shifts.families[0]->p, 2.0 / 924, 1e-9);
  EXPECT_FALSE(shifts.families[1]);  // one row
  EXPECT_NEAR(shifts.families[2]->ratio, 1 / std::sqrt(1.2 * 1.3), 1e-9);
}

// Rows 0 and 1 became faster: by them rows 3 and 4 are slower, and by row 2 they are not.
TEST(LaunchShifts, MakeNoFamilySlowerWhereOneIsFaster) {
  std::vector<LaunchTimes> now = launches_of(0.8, 1);
  for (LaunchTimes& times : now) {
    times[1] = *times[1] * 0.8;
  }
  const LaunchShifts shifts = launch_shifts(launches_of(1, 1), now, {{0, 1}, {2}, {3, 4}});
  EXPECT_NEAR(shifts.families[0]->ratio, 0.8, 1e-9);
  EXPECT_NEAR(shifts.families[2]->ratio, 1, 1e-9);
  EXPECT_GT(shifts.families[2]->p, 0.5);
  // With one other: which of the two is it?
  EXPECT_FALSE(launch_shifts(launches_of(1, 1), now, {{0, 1}, {2, 3, 4}}).families[0]);
}

TEST(LaunchShifts, FindThatAllRowsAreSlower) {
  const LaunchShifts shifts = launch_shifts(launches_of(1, 1), launches_of(1, 7));
  for (const LaunchShift& shift : shifts.relative) {
    EXPECT_NEAR(shift.ratio, 1, 1e-9);
  }
  EXPECT_NEAR(shifts.all.ratio, 7, 1e-9);
  EXPECT_NEAR(shifts.all.p, 2.0 / 924, 1e-9);  // of each row the same, and so of all
  EXPECT_FALSE(shifts.all.is_slower) << "p = 0.013 of six tests";
}

// Three of seven rows are slower than the others; of all, only those count that are not.
TEST(LaunchShifts, AreNotOfAllWhereSomeRowsAreSlower) {
  const auto launches = [](double factor) {
    std::vector<LaunchTimes> all;
    for (int launch = 0; launch < 10; ++launch) {
      LaunchTimes& times = all.emplace_back();
      for (int row = 0; row < 7; ++row) {
        const double scatter = 1 + 0.001 * ((launch * 7 + row * 5) % 10);
        times.emplace_back(scatter * (row < 3 ? factor : 1));
      }
    }
    return all;
  };
  const LaunchShifts shifts = launch_shifts(launches(1), launches(1.5));
  for (std::size_t row = 0; row < 7; ++row) {
    EXPECT_EQ(shifts.relative[row].is_slower, row < 3) << row;
  }
  EXPECT_NEAR(shifts.all.ratio, 1, 1e-3);
  EXPECT_FALSE(shifts.all.is_slower);
}

// Ten launches of five rows within 1 %.
TEST(LaunchShifts, LeaveWhatTheSpeedOfAMachineShiftsByItself) {
  const auto launches = [](double all) {
    std::vector<LaunchTimes> times(10);
    for (std::size_t launch = 0; launch < 10; ++launch) {
      for (std::size_t row = 0; row < 5; ++row) {
        times[launch].emplace_back(all * (1 + 0.001 * static_cast<double>((launch + row) % 10)));
      }
    }
    return times;
  };
  EXPECT_FALSE(launch_shifts(launches(1), launches(1.09)).all.is_slower);
  EXPECT_LT(launch_shifts(launches(1), launches(1.09)).all.p_adjusted, 0.01);
  EXPECT_TRUE(launch_shifts(launches(1), launches(1.12)).all.is_slower);
}

constexpr std::uint64_t k_shift_seed = 7;

/// What became of a program, and how much its launches differ.
struct ShiftedProgram {
  double first_row = 1;
  double all = 1;
  double spread = 0.25;  // of the logarithm of a launch's speed, which is normal
};

/// In how many of 500 pairs of ten launches of five rows all rows are said to be slower.
int pairs_slower_in_all(const ShiftedProgram& changed) {
  std::mt19937_64 random(k_shift_seed);
  std::normal_distribution<double> normal;
  const auto launches = [&](double first_row, double all) {
    std::vector<LaunchTimes> times(10);
    for (LaunchTimes& launch : times) {
      const double speed = all * std::exp(changed.spread * normal(random));
      for (int row = 0; row < 5; ++row) {
        launch.emplace_back(speed * std::exp(0.01 * normal(random)) * (row == 0 ? first_row : 1));
      }
    }
    return times;
  };
  int slower = 0;
  for (int pair = 0; pair < 500; ++pair) {
    const std::vector<LaunchTimes> before = launches(1, 1);
    slower += launch_shifts(before, launches(changed.first_row, changed.all)).all.is_slower ? 1 : 0;
  }
  return slower;
}

// By chance, every fourth pair of such launches has a ratio above 1.10; that one row became three times as
// fast is no reason to believe it.
TEST(LaunchShifts, AreNotOfAllWhereOneRowIsFaster) {
  EXPECT_LE(pairs_slower_in_all({.first_row = 1.0 / 3}), 10) << "seed " << k_shift_seed;
  EXPECT_LE(pairs_slower_in_all({.first_row = 1.0 / 1.1}), 10) << "seed " << k_shift_seed;
}

TEST(LaunchShifts, AreSeldomOfAllWhereNothingChanged) {
  EXPECT_LE(pairs_slower_in_all({}), 5) << "seed " << k_shift_seed << ", one in a hundred";
}

// Of launches that differ by 3 %, the ratio of medians is 15 %, give or take 1.7 % (sqrt(2 / 10) of a
// median's 1.25 x 3 %): 1.10 is 2.6 of these away, which 498 of 500 reach; 490 with 8 to spare.
TEST(LaunchShifts, FindThatAllRowsAre15PercentSlower) {
  EXPECT_GE(pairs_slower_in_all({.all = 1.15, .spread = 0.03}), 490) << "seed " << k_shift_seed;
}

// The others are slower, and the first row is not: it is faster than they are.
TEST(LaunchShifts, FindThatTheOtherRowsAreSlowerWhereOneIsFaster) {
  EXPECT_GE(pairs_slower_in_all({.first_row = 1.0 / 3, .all = 1.15, .spread = 0.03}), 490)
      << "seed " << k_shift_seed;
}

TEST(LaunchShifts, AreOfTheLaunchesThatHaveTheRow) {
  std::vector<LaunchTimes> before = launches_of(1, 1);
  std::vector<LaunchTimes> now = launches_of(1.2, 1);
  before[2][0].reset();
  now[0][0].reset();
  // 5 against 5: one of 252 choices, twice.
  EXPECT_NEAR(launch_shifts(before, now).relative[0].p, 2.0 / 252, 1e-9);
  for (LaunchTimes& launch : now) {
    launch[0].reset();
  }
  EXPECT_EQ(launch_shifts(before, now).relative[0].p, 1);
}

}  // namespace
}  // namespace commlens
