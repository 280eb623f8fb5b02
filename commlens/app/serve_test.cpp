#include "commlens/app/serve.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <regex>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/live/http/test_support.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using nlohmann::json;
using test_support::Client;
using test_support::http_answer;
using test_support::http_body;
using test_support::ScratchDirectory;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A job of two ranks in this process, served while it runs; rank 1 does not come to the second call.
class ServedJob : public testing::Test {
 protected:
  void SetUp() override {
    create_recording(path(), {.producer = "test", .description = {}, .framework = {}, .ranks = 2});
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Recorder& recorder = *recorders_.emplace_back(std::make_unique<Recorder>(path(), Rank{rank}));
      call_ = {.kind = CommKind::all_reduce,
               .dtype = DType::fp64,
               .group = recorder.group({Rank{0}, Rank{1}}, Axis::world, CommunicatorId{1}),
               .input = Elements{128},
               .output = Elements{128},
               .root = {},
               .blocking = true,
               .tag = {}};
      recorder.finish(recorder.begin(call_));
    }
    open_ = recorders_[0]->begin(call_);
  }
  void TearDown() override {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  /// Starts serving; the port, or nothing where the server cannot be had here.
  std::optional<std::uint16_t> serve_it() {
    ServeRequest request;
    request.watch.directory = path();
    request.watch.interval = std::chrono::milliseconds(100);
    request.watch.hang_after = std::chrono::milliseconds(200);
    request.watch.stop_requested = [this] { return stop_.load(); };
    request.listen.port = 0;
    std::promise<std::string> started;
    request.started = [&](const std::string& address) { started.set_value(address); };
    std::future<std::string> address = started.get_future();
    thread_ = std::thread([this, request, &started] {
      const Result<WatchResult> result = serve(request);
      if (!result) {
        started.set_value(result.error().message);
      } else {
        has_alert_ = result->has_alert;
      }
    });
    const std::string told = address.get();
    if (contains(told, "libmicrohttpd-dev")) {
      return std::nullopt;
    }
    EXPECT_EQ(told.rfind("http://127.0.0.1:", 0), 0U) << told;
    return static_cast<std::uint16_t>(std::stoi(told.substr(told.rfind(':') + 1)));
  }

  std::string path() const { return directory_.path("t"); }
  static json json_at(std::uint16_t port, const std::string& page) {
    return json::parse(http_body(http_answer(port, "GET", page)));
  }
  /// Until rank 1 has been found missing.
  static void wait_for_alert(std::uint16_t port) {
    for (int tries = 0; tries < 200; ++tries) {
      const std::string answer = http_answer(port, "GET", "/api/v1/alerts");
      if (contains(answer, "culprit_ranks")) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL() << "no alert in 10 s";
  }

  ScratchDirectory directory_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  RecordedCall call_;
  Recorder::Slot open_{};
  std::atomic<bool> stop_ = false;
  std::atomic<bool> has_alert_ = false;
  std::thread thread_;
};

TEST_F(ServedJob, IsToldInJsonMetricsAndEvents) {
  const std::optional<std::uint16_t> port = serve_it();
  if (!port) {
    GTEST_SKIP() << "libcommlens-live.so was not built";
  }
  const Client stream(*port);
  ASSERT_TRUE(stream.ask("GET", "/events"));
  wait_for_alert(*port);
  EXPECT_EQ(json_at(*port, "/api/v1/alerts").at(0).at("culprit_ranks"), json({1}));
  const json state = json_at(*port, "/api/v1/state");
  EXPECT_EQ(state.at("job"), "running");
  EXPECT_EQ(state.at("calls_all_ranks"), 2);
  EXPECT_EQ(json_at(*port, "/api/v1/ranks").size(), 2U);
  EXPECT_EQ(json_at(*port, "/api/v1/ops").at(0).at("op"), "all_reduce");
  EXPECT_EQ(json_at(*port, "/api/v1/hang").at("verdict"), "missing");

  const std::string metrics = http_answer(*port, "GET", "/metrics");
  EXPECT_TRUE(contains(metrics, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_TRUE(contains(
      metrics, "commlens_calls_total{job_id=\"t\",op=\"all_reduce\",axis=\"world\",group_size=\"2\"} 2\n"))
      << metrics;
  EXPECT_TRUE(contains(
      metrics,
      "commlens_message_bytes_total{job_id=\"t\",op=\"all_reduce\",axis=\"world\",group_size=\"2\"} 2048\n"));
  EXPECT_TRUE(contains(metrics, "commlens_culprit{job_id=\"t\",rank=\"1\",")) << metrics;
  const std::string open_metrics =
      http_answer(*port, "GET", "/metrics", "Accept: application/openmetrics-text\r\n");
  EXPECT_TRUE(
      contains(open_metrics, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
  EXPECT_TRUE(contains(open_metrics, "# EOF\n"));

  const std::string told = stream.hear("event: alert\n");
  const Client later(*port);
  ASSERT_TRUE(later.ask("GET", "/events"));
  EXPECT_TRUE(contains(later.hear("event: state\n"), "event: alert\n"));  // what happened before it came
  EXPECT_TRUE(contains(told, "Content-Type: text/event-stream\r\n"));
  EXPECT_TRUE(contains(told, "event: state\nid: ")) << told;
  EXPECT_TRUE(contains(http_answer(*port, "GET", "/healthz"), "HTTP/1.1 200 "));
  EXPECT_TRUE(contains(http_answer(*port, "GET", "/no-such"), "HTTP/1.1 404 "));

  recorders_[0]->finish(open_);  // it goes on
  for (int tries = 0; tries < 200 && !json_at(*port, "/api/v1/alerts").empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(json_at(*port, "/api/v1/alerts").empty());
  EXPECT_TRUE(contains(stream.hear("event: recovered\n"), "event: recovered\n"));
  stop_ = true;
  thread_.join();
  EXPECT_TRUE(has_alert_);
}

// Its processes are gone before it is served.
TEST_F(ServedJob, SaysWhyAJobThatHasStoppedDidNotGoOn) {
  for (const char* const tables : {"/rank-0.jsonl", "/rank-1.jsonl"}) {
    std::ostringstream text;
    text << std::ifstream(path() + tables).rdbuf();
    std::ofstream(path() + tables) << std::regex_replace(text.str(), std::regex(R"re("start_ticks": ?\d+)re"),
                                                         R"("start_ticks":1)");
  }
  const std::optional<std::uint16_t> port = serve_it();
  if (!port) {
    GTEST_SKIP() << "libcommlens-live.so was not built";
  }
  wait_for_alert(*port);
  EXPECT_EQ(json_at(*port, "/api/v1/state").at("job"), "stopped");
  EXPECT_EQ(json_at(*port, "/api/v1/hang").at("verdict"), "missing");
  EXPECT_EQ(json_at(*port, "/api/v1/hang").at("culprits").at(0).at("rank"), 1);
  stop_ = true;
  thread_.join();
  EXPECT_TRUE(has_alert_);
}

TEST_F(ServedJob, HasAPageThatRunsItsOwnScriptAlone) {
  const std::optional<std::uint16_t> port = serve_it();
  if (!port) {
    GTEST_SKIP() << "libcommlens-live.so was not built";
  }
  const std::string page = http_answer(*port, "GET", "/");
  EXPECT_TRUE(contains(page, "Content-Type: text/html; charset=utf-8\r\n"));
  const std::string policy = "script-src 'nonce-";
  const std::size_t at = page.find(policy);
  ASSERT_NE(at, std::string::npos);
  constexpr std::size_t mark_length = 32;
  const std::string mark = page.substr(at + policy.size(), mark_length);
  EXPECT_TRUE(contains(page, "<style nonce=\"" + mark + "\">"));
  EXPECT_FALSE(contains(http_answer(*port, "GET", "/"), mark));  // the next page has another
}

/// What a single look at it says; it has been stuck for longer than `hang_after`.
void expect_stuck(WatchRequest request) {
  request.is_single = true;
  request.hang_after = std::chrono::milliseconds(100);
  const Result<WatchResult> result = watch(request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->has_alert);
  EXPECT_EQ(result->view.name, "t");
  EXPECT_EQ(result->view.state, LiveState::running);
  EXPECT_EQ(result->view.totals.calls, 2);
  EXPECT_EQ(result->view.totals.message, Bytes{2 * 1024});
  ASSERT_EQ(result->view.alerts.size(), 1U);
  EXPECT_EQ(result->view.alerts[0].culprits, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(result->view.ranks[0].state, LiveRankState::stuck);
}

TEST_F(ServedJob, IsFollowedByItsAddress) {
  const std::optional<std::uint16_t> port = serve_it();
  if (!port) {
    GTEST_SKIP() << "libcommlens-live.so was not built";
  }
  wait_for_alert(*port);
  WatchRequest request;
  request.agents = {"http://127.0.0.1:" + std::to_string(*port)};
  expect_stuck(request);
  request.baseline = path();
  const Result<WatchResult> compared = watch(request);
  ASSERT_FALSE(compared);
  EXPECT_TRUE(contains(compared.error().message, "states of nodes have no calls"))
      << compared.error().message;
}

TEST_F(ServedJob, IsFollowedByTheStatesOfItsNodes) {
  WatchRequest node;
  node.directory = path();
  node.publish = directory_.path("states");
  node.is_single = true;
  ASSERT_TRUE(watch(node));
  WatchRequest all;
  all.directory = directory_.path("states");
  expect_stuck(all);
  all.publish = directory_.path("elsewhere");
  const Result<WatchResult> again = watch(all);
  ASSERT_FALSE(again);
  EXPECT_TRUE(contains(again.error().message, "--publish is for")) << again.error().message;
}

TEST(Watch, SaysWhyANodeCannotBeAsked) {
  WatchRequest request;
  request.agents = {"http://127.0.0.1:1/"};
  request.is_single = true;
  const Result<WatchResult> result = watch(request);
  ASSERT_FALSE(result);
  if (!contains(result.error().message, "libcommlens-live.so") &&
      !contains(result.error().message, "libcurl")) {
    EXPECT_EQ(result.error().message.rfind("http://127.0.0.1:1/: ", 0), 0U) << result.error().message;
  }
}

TEST(Serve, IsProtectedWhereOthersReachIt) {
  ServeRequest request;
  request.listen.address = "0.0.0.0";
  const Result<WatchResult> refused = serve(request);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().message, "--token-file")) << refused.error().message;
}

}  // namespace
}  // namespace commlens
