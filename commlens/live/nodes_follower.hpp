#pragma once
#include <functional>
#include <memory>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/live/follow_options.hpp"
#include "commlens/live/job_view.hpp"
#include "commlens/live/node_state.hpp"

namespace commlens {

/// Where the states of a job's nodes come from.
class NodeSource {
 public:
  /// A place is a file or a URL; each has the states of one node.
  using Sink = std::function<void(const std::string& place, Result<NodeState> state)>;

  NodeSource() = default;
  virtual ~NodeSource() = default;
  NodeSource(const NodeSource&) = delete;
  NodeSource& operator=(const NodeSource&) = delete;

  /// Gives what has come since the last look, and of each place that cannot be read now why, each time. Never
  /// waits for a node.
  virtual void look(const Sink& sink) = 0;
};

/// Makes one view of a job out of what the followers of its nodes say, each of which sees the ranks of its
/// node alone. Who waits for whom is found among all of them. Only numbers of calls are compared between
/// nodes: how long nothing has moved is told by each node as an age, and grows by the stopwatch here from
/// when its state came. Of a node whose next state does not come nothing is known: its ranks are as ones
/// without files. Not thread-safe.
class NodesFollower {
 public:
  /// `name`: shown until a node says what its job is called.
  NodesFollower(std::unique_ptr<NodeSource> source, std::string name, const FollowOptions& options);
  NodesFollower(NodesFollower&&) noexcept;
  NodesFollower& operator=(NodesFollower&&) noexcept;
  NodesFollower(const NodesFollower&) = delete;
  NodesFollower& operator=(const NodesFollower&) = delete;
  ~NodesFollower();

  void poll(PollTime time = PollTime::now());
  /// As of the last poll.
  const JobView& view() const;

  /// A node counts as silent when its state is so many intervals old, and k_least_silence at least.
  static constexpr std::int64_t k_silent_intervals = 4;
  static constexpr std::chrono::seconds k_least_silence{15};

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commlens
