// Which hangs are one alert.
#include "commlens/live/hang_watch.hpp"

#include <string>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using std::chrono::milliseconds;

/// A job that hung until second 10, moves again, and is found hung at `unix_ms`, when nothing has moved for
/// `still`: the id of that alert.
std::string second_alert(std::int64_t unix_ms, milliseconds still, ProcessState process) {
  HangWatch watch{FollowOptions()};
  JobView view;
  view.state = LiveState::running;
  view.hang.processes = {ProcessState::sleeping};
  const auto look = [&](bool is_hung, std::int64_t at_ms) {
    view.hang.is_confirmed = is_hung;
    watch.alert(view, at_ms * 1'000'000);
    return view.alerts.empty() ? std::string() : view.alerts[0].id;
  };
  EXPECT_EQ(look(true, 1'000), "hang-1");
  EXPECT_EQ(look(false, 10'000), "");
  view.hang.processes = {process};
  view.hang.still_for = still;
  return look(true, unix_ms);
}

// Who kills a hung job lets it go on first: its ranks move for some milliseconds, and are gone.
TEST(HangWatch, TakesTheEndOfAKilledJobForTheSameHang) {
  EXPECT_EQ(second_alert(10'600, milliseconds(500), ProcessState::gone), "hang-1");
  EXPECT_EQ(second_alert(20'000, milliseconds(9'000), ProcessState::gone), "hang-1");  // slowly
}

TEST(HangWatch, TakesARankThatDiesLaterForAnother) {
  EXPECT_EQ(second_alert(14'500, milliseconds(500), ProcessState::gone), "hang-2");
  EXPECT_EQ(second_alert(60'000, milliseconds(49'900), ProcessState::gone), "hang-2");
  EXPECT_EQ(second_alert(10'600, milliseconds(500), ProcessState::stopped), "hang-2");
}

}  // namespace
}  // namespace commlens
