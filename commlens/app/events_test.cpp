#include "commlens/app/events.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Task, ReportsThatItBeginsEachStepAndThatItEnds) {
  using Stage = ProgressReport::Stage;
  struct Heard {
    Stage stage;
    std::string task;
    std::int64_t done;
    std::int64_t total;
    bool operator==(const Heard&) const = default;
  };
  std::vector<Heard> heard;
  Events events;
  events.progress = [&](const ProgressReport& report) {
    heard.push_back({report.stage, std::string(report.task), report.done, report.total});
  };
  {
    Task task(events, "counting", 5);
    task.add(2);
    task.add(3);
  }
  const std::vector<Heard> expected = {{Stage::begins, "counting", 0, 5},
                                       {Stage::goes_on, "counting", 2, 5},
                                       {Stage::goes_on, "counting", 5, 5},
                                       {Stage::ends, "counting", 5, 5}};
  EXPECT_TRUE(heard == expected) << heard.size();
}

TEST(Events, CallbacksMayBeEmpty) {
  const Events events;
  events.warn("no callback gets this");
  Task(events, "counting", 0).add(1);
}

}  // namespace
}  // namespace commlens
