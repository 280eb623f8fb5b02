#include "commlens/app/events.hpp"

#include <utility>

namespace commlens {

Task::Task(Events events, std::string name, std::int64_t total)
    : events_(std::move(events)), name_(std::move(name)), total_(total) {
  report(ProgressReport::Stage::begins);
}

Task::~Task() { report(ProgressReport::Stage::ends); }

void Task::add(std::int64_t steps) {
  done_ += steps;
  report(ProgressReport::Stage::goes_on);
}

void Task::report(ProgressReport::Stage stage) const {
  if (events_.progress) {
    events_.progress({stage, name_, done_, total_});
  }
}

}  // namespace commlens
