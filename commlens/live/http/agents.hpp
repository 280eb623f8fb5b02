#pragma once
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/live/nodes_follower.hpp"

// States of nodes from the `commlens serve` of each.
namespace commlens {

/// What one GET gave.
struct GetOutcome {
  std::string body;
  std::string why;  // there is none: no answer came, or "HTTP 401"
};

struct GetRequest {
  std::vector<std::string> urls;
  std::string token;  // shown as Authorization: Bearer; empty: none
};

/// `commlens_http_get` of libcommlens-live.so: asks all at once, each 5 s at most and for k_largest_state
/// bytes, no redirect followed; gives each answer when it has come, with the row of its URL, and gives up
/// soon after `is_stopped` says so.
using HttpGetFunction = void (*)(const GetRequest& request, const std::function<bool()>& is_stopped,
                                 const std::function<void(std::size_t row, GetOutcome&& outcome)>& sink);

/// Whether it can be the address of an agent: http or https, and no name or password in it, which would be
/// shown.
bool is_address(std::string_view text);

/// Where states are asked for: /api/v1/node below the address of a page of `serve`, or this address itself.
std::string node_url(const std::string& address);
/// Whether somebody meant a URL, perhaps a wrong one.
bool is_url(std::string_view text);

/// The addresses in a file, one a line; empty lines and those that begin with # are none. Fails for what is
/// no URL, and without any.
Result<std::vector<std::string>> read_agents(const std::string& file);

/// Asks all addresses again and again, by a thread of its own.
class AgentsSource final : public NodeSource {
 public:
  /// Fails where the module is not installed or was built without libcurl.
  static Result<std::unique_ptr<AgentsSource>> open(const std::vector<std::string>& addresses,
                                                    std::string token);
  ~AgentsSource() override;
  void look(const Sink& sink) override;
  /// Until all have answered, or did not in time.
  void wait_for_answers();

  /// From one round of questions to the next, at least.
  static constexpr std::chrono::milliseconds k_pause{1000};

 private:
  AgentsSource(HttpGetFunction get, const std::vector<std::string>& addresses, std::string token);
  void work();

  HttpGetFunction get_;
  std::vector<std::string> addresses_;
  GetRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, GetOutcome> news_;     // that were not given yet, by row of addresses_
  std::map<std::size_t, std::string> errors_;  // of the latest answers; of look() alone
  bool has_asked_all_ = false;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace commlens
