// Events of a watch.
#include "commlens/app/watch.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/followed_job.hpp"
#include "commlens/live/node_state.hpp"
#include "commlens/live/spool.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

/// A node that runs, and says that it sends something else than predicted.
NodeState node_with_alert(const std::string& node, const std::string& id, std::int64_t poll) {
  JobView view;
  view.watcher.polls = poll;
  view.name = "job";
  view.state = LiveState::running;
  view.generation = 1;
  LiveAlert& alert = view.alerts.emplace_back();
  alert.id = id;
  alert.kind = k_alert_volume;
  alert.text = "something else";
  return node_state_of(view, node, std::chrono::seconds(5));
}

TEST(WatchEvents, TellEachAlertOfEachNodeOnce) {
  const test_support::ScratchDirectory directory;
  write_node_state(directory.path(), node_with_alert("a", "volume-1", 1));
  write_node_state(directory.path(), node_with_alert("b", "volume-1", 1));
  std::vector<std::string> told;
  int polls = 0;
  WatchRequest request;
  request.directory = directory.path().string();
  request.interval = std::chrono::milliseconds(1);
  request.stop_requested = [&] { return polls >= 5; };
  request.polled = [&](const JobView&, std::span<const WatchEvent> events) {
    for (const WatchEvent& event : events) {
      if (event.kind == WatchEventKind::alert) {
        told.push_back(event.alert->id);
      }
    }
    if (++polls == 3) {
      write_node_state(directory.path(), node_with_alert("b", "volume-2", 2));
    }
  };
  const Result<WatchResult> result = watch(request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->has_alert);
  EXPECT_EQ(told, (std::vector<std::string>{"a/volume-1", "b/volume-1", "b/volume-2"}));
}

// Folders are named like this, too, and may appear later.
TEST(FollowedAt, TakesANameWithAColonForAFolder) {
  for (const char* const place :
       {"run:1", "n17:9464", "run.2:7", "localhost:80", "run.2:99999", "run.2:00001024", "a/b.c:9464"}) {
    const Result<WatchRequest> request =
        followed_at({.place = place, .agents_file = {}, .token_file = {}, .publish = {}});
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->directory, place);
    EXPECT_TRUE(request->agents.empty());
    EXPECT_FALSE(is_of_nodes(place)) << place;
  }
}

TEST(FollowedAt, RefusesAnAddressWithoutItsScheme) {
  for (const char* const place :
       {"localhost:9464", "LOCALHOST:1024/", "n17.example.org:65535", "10.0.0.1:9464", "[::1]:9464"}) {
    EXPECT_FALSE(followed_at({.place = place, .agents_file = {}, .token_file = {}, .publish = {}})) << place;
  }
}

}  // namespace
}  // namespace commlens
