// States of nodes. What is accepted must be read back as the same state, and can be followed beside another.
#include <memory>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/live/job_alerts.hpp"
#include "commlens/live/nodes_follower.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

using namespace commlens;

/// Hands over one state, once.
class OneState final : public NodeSource {
 public:
  explicit OneState(NodeState state) : state_(std::move(state)) {}
  void look(const Sink& sink) override { sink("fuzz", state_); }

 private:
  NodeState state_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const Result<NodeState> state = node_state_from(as_text(bytes, size));
  if (!state) {
    COMMLENS_CHECK(!state.error().message.empty(), "an error says something");
    return 0;
  }
  const std::string text = node_state_text(*state);
  const Result<NodeState> again = node_state_from(text);
  COMMLENS_CHECK(again && node_state_text(*again) == text, "a state survives writing");
  NodesFollower follower(std::make_unique<OneState>(*state), "fuzz", {});
  JobAlerts alerts;
  for (const std::int64_t second : {1, 2, 14, 100}) {
    const PollTime time = {std::chrono::seconds(second), second * 1'000'000'000};
    follower.poll(time);
    JobView view = follower.view();
    alerts.look(view, time);
  }
  for (const LiveRank& rank : follower.view().ranks) {
    const double late = rank.late_score.value_or(0);
    COMMLENS_CHECK(late >= 0 && late <= 1, "a share is one");
  }
  COMMLENS_CHECK(follower.view().ranks.size() <= state->view.ranks.size(), "no rank is made up");
  return 0;
}
