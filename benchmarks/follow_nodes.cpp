// What following all nodes of a large job costs, and how soon a rank that hangs is named.
//   follow_nodes files NODES      the nodes write their states into a folder, every 5 s
//   follow_nodes http NODES       they are asked for them, each at an address of one server
// 8 ranks a node; after 15 s one of them makes no more calls. Another process plays the nodes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"
#include "commlens/live/cluster_test_support.hpp"
#include "commlens/live/http/agents.hpp"
#include "commlens/live/http/http_server.hpp"
#include "commlens/live/nodes_follower.hpp"
#include "commlens/live/spool.hpp"

namespace {

using namespace commlens;
using test_support::PlannedCluster;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds k_round(5);
constexpr int k_rounds_before = 3;
constexpr std::chrono::seconds k_limit(10);
constexpr std::uint16_t k_port = 19464;

double use_of_processor() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double resident_mib() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

/// Answers for every node: /n17/api/v1/node.
class Agents final : public HttpHandler {
 public:
  explicit Agents(std::size_t nodes) : texts_(nodes) {}
  void set(std::size_t node, std::string text) {
    const std::scoped_lock lock(mutex_);
    texts_[node] = std::make_shared<const std::string>(std::move(text));
  }
  HttpReply answer(const HttpRequest& request) override {
    const std::scoped_lock lock(mutex_);
    HttpReply reply;
    reply.type = "application/json";
    reply.body =
        texts_[static_cast<std::size_t>(std::strtoul(request.path.c_str() + 2, nullptr, 10)) % texts_.size()];
    return reply;
  }

 private:
  std::mutex mutex_;
  std::vector<SharedText> texts_;
};

/// Plays the nodes until it is ended.
[[noreturn]] void play(std::int64_t nodes, const std::filesystem::path& folder, bool by_http) {
  PlannedCluster cluster(nodes);
  Agents agents(static_cast<std::size_t>(nodes));
  std::unique_ptr<HttpServer> server;
  auto next = Clock::now();
  for (std::int64_t round = 1;; ++round) {
    if (round == k_rounds_before + 1) {
      cluster.stop(Rank{cluster.ranks() / 2 + 3});
    }
    for (std::int64_t node = 0; node < nodes; ++node) {
      const NodeState state = cluster.state(node, round);
      if (by_http) {
        agents.set(static_cast<std::size_t>(node), node_state_text(state));
      } else {
        write_node_state(folder, state);
      }
    }
    if (by_http && !server) {
      Result<std::unique_ptr<HttpServer>> started = start_http_server({.port = k_port, .token = {}}, agents);
      COMMLENS_CHECK(started.has_value(), "the port is free");
      server = std::move(*started);
    }
    next += k_round;
    std::this_thread::sleep_until(next);
    cluster.pass(k_round);
  }
}

std::unique_ptr<NodeSource> source_of(std::int64_t nodes, const std::filesystem::path& folder, bool by_http) {
  if (!by_http) {
    return std::make_unique<SpoolSource>(folder);
  }
  std::vector<std::string> addresses;
  for (std::int64_t node = 0; node < nodes; ++node) {
    addresses.push_back(fmt::format("http://127.0.0.1:{}/n{}", k_port, node));
  }
  Result<std::unique_ptr<AgentsSource>> source = AgentsSource::open(addresses, "");
  COMMLENS_CHECK(source.has_value(), "libcurl is there");
  return std::move(*source);
}

void follow(std::int64_t nodes, const std::filesystem::path& folder, bool by_http) {
  FollowOptions options;
  options.hang_after = k_limit;
  NodesFollower follower(source_of(nodes, folder, by_http), "job", options);
  const auto began = Clock::now();
  const auto stopped = began + k_rounds_before * k_round;  // the first state that shows it is written then
  double longest = 0;
  while (follower.view().alerts.empty() && Clock::now() - began < std::chrono::minutes(2)) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    follower.poll();
    longest = std::max(longest, static_cast<double>(follower.view().watcher.took.count()) / 1e9);
  }
  const JobView& view = follower.view();
  const std::chrono::duration<double> took = Clock::now() - began;
  const std::chrono::duration<double> late = Clock::now() - stopped - k_limit;
  const std::string culprit = view.alerts.empty() || view.alerts[0].culprits.size() != 1
                                  ? "nobody"
                                  : fmt::format("rank {}", view.alerts[0].culprits[0].value);
  fmt::print(
      "{} ranks of {} nodes, {}: {} named {:.1f} s after {} s without a call; {:.0f} % of a core, a look "
      "{:.2f} s at "
      "most, {:.0f} MiB; {}\n",
      with_commas(std::ssize(view.ranks)), with_commas(nodes), by_http ? "http" : "files", culprit,
      late.count(), k_limit.count(), use_of_processor() / took.count() * 100, longest, resident_mib(),
      view.error.empty() ? "no errors" : view.error);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc == 3 ? argv[1] : "";
  if (way != "files" && way != "http") {
    fmt::print(stderr, "follow_nodes files|http NODES\n");
    return 2;
  }
  const std::int64_t nodes = std::max(1L, std::strtol(argv[2], nullptr, 10));
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("follow_nodes.{}", getpid());
  std::filesystem::create_directory(folder);
  const pid_t player = fork();
  if (player == 0) {
    play(nodes, folder, way == "http");
  }
  follow(nodes, folder, way == "http");
  kill(player, SIGKILL);
  waitpid(player, nullptr, 0);
  std::filesystem::remove_all(folder);
  return 0;
}
