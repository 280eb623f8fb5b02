#include "commlens/transport/started_calls.hpp"

#include <algorithm>
#include <utility>

namespace commlens {
namespace {

class StartedCalls final : public Work {
 public:
  explicit StartedCalls(std::vector<std::unique_ptr<Work>> works) : works_(std::move(works)) {}

  void wait() override {
    for (const std::unique_ptr<Work>& work : works_) {
      work->wait();
    }
  }

  /// Asks all of them: each may need it to make progress.
  bool is_complete() override {
    return std::count_if(works_.begin(), works_.end(), [](const auto& work) {
             return work->is_complete();
           }) == static_cast<std::ptrdiff_t>(works_.size());
  }

  /// From the first start to the last end.
  std::optional<MovedTimes> moved() const override {
    std::optional<MovedTimes> all;
    for (const std::unique_ptr<Work>& work : works_) {
      const std::optional<MovedTimes> moved = work->moved();
      if (!moved) {
        return std::nullopt;
      }
      all = all ? MovedTimes{std::min(all->started_ns, moved->started_ns),
                             std::max(all->finished_ns, moved->finished_ns)}
                : *moved;
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<Work>> works_;
};

}  // namespace

std::unique_ptr<Work> started_calls(std::vector<std::unique_ptr<Work>> works) {
  return std::make_unique<StartedCalls>(std::move(works));
}

}  // namespace commlens
