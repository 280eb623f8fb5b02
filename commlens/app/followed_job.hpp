#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "commlens/app/watch.hpp"
#include "commlens/base/plain_file.hpp"
#include "commlens/live/folder_follower.hpp"
#include "commlens/live/nodes_follower.hpp"

namespace commlens {

/// Where a job is, as it is said on a command line.
struct JobPlace {
  std::string place;        // a directory, or a URL
  std::string agents_file;  // or a file of URLs
  std::string token_file;   // of these
  std::string publish;
};

/// A request to follow it. Fails without a place and with two of them, for files that cannot be read, and for
/// a token without a URL.
Result<WatchRequest> followed_at(const JobPlace& job);

/// Whether a place says that the states of nodes are meant: a URL, though it may be a wrong one, or a
/// directory of such states without a recording.
bool is_of_nodes(const std::string& place);

/// What a watch follows: the folder of a recording, or the states of a job's nodes, where its directory holds
/// such states instead.
class FollowedJobSource {
 public:
  /// Fails for agents that cannot be asked, and where more is wanted than states of nodes allow.
  static Result<FollowedJobSource> open(const WatchRequest& request);

  Result<void> poll(PollTime time);
  const JobView& view() const;
  /// Which has the calls themselves; nullptr of nodes.
  FolderFollower* folder() { return std::get_if<FolderFollower>(&follower_); }

 private:
  using Follower = std::variant<FolderFollower, NodesFollower>;
  FollowedJobSource(Follower follower, const FollowOptions& options)
      : follower_(std::move(follower)), options_(options) {}
  /// A folder without a recording may turn out to be one of states.
  Result<void> look_for_states();

  Follower follower_;
  FollowOptions options_;
  std::string directory_;
  std::string needs_folder_;  // why states of nodes are not enough; empty: they are
};

/// Keeps the state of this node in a folder that all nodes see.
class NodePublisher {
 public:
  /// Without `request.publish` nothing is written.
  explicit NodePublisher(const WatchRequest& request) : request_(request) {}
  /// After each poll; writes when the last state is k_pause old, and at once when the job's state changed. Of
  /// a single look each state is written.
  void look(const JobView& view, PollTime time);

  static constexpr std::chrono::seconds k_pause{5};

 private:
  void warn(const std::string& what);

  const WatchRequest& request_;
  std::optional<std::chrono::nanoseconds> written_;
  LiveState state_ = LiveState::absent;
  std::optional<PlainFile::Look> file_;  // as it was left
  std::string warning_;                  // that was told
};

}  // namespace commlens
