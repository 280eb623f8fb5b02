#include "commlens/live/http/agents.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/live/http/live_module.hpp"

namespace commlens {

bool is_url(std::string_view text) {
  constexpr std::size_t longest_scheme = 8;  // "https://"
  std::string begin(text.substr(0, longest_scheme));
  std::transform(begin.begin(), begin.end(), begin.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return begin.starts_with("http:") || begin.starts_with("https:") ||
         text.find("://") != std::string_view::npos;
}

bool is_address(std::string_view text) {
  // The port is 1 to 65535; a name or password (user@) would be shown.
  static const std::regex form("https?://([^/@:?#]+|\\[[0-9A-Fa-f:]+\\])(:0*[1-9][0-9]{0,4})?(/[^?#]*)?",
                               std::regex::icase);
  return text.size() < 2048 && std::regex_match(text.begin(), text.end(), form);
}

std::string node_url(const std::string& address) {
  constexpr std::string_view page = "api/v1/node";
  return address.ends_with(page) ? address
                                 : fmt::format("{}{}{}", address, address.ends_with('/') ? "" : "/", page);
}

Result<std::vector<std::string>> read_agents(const std::string& file) {
  constexpr std::int64_t largest = std::int64_t{1} << 24;
  return read_text_file(file, largest)
      .and_then([&](const std::string& text) -> Result<std::vector<std::string>> {
        std::vector<std::string> addresses;
        std::istringstream lines(text);
        std::string line;
        for (std::int64_t number = 1; std::getline(lines, line); ++number) {
          const std::size_t end = line.find_last_not_of(" \t\r");
          line.resize(end == std::string::npos ? 0 : end + 1);
          if (line.empty() || line.front() == '#') {
            continue;
          }
          if (!is_address(line)) {
            return failure(
                fmt::format("{}:{}: no address of an agent; write http://HOST:PORT/", file, number));
          }
          addresses.push_back(line);
        }
        if (addresses.empty()) {
          return failure(
              fmt::format("{}: no address of an agent; write one a line, http://HOST:PORT/", file));
        }
        return addresses;
      });
}

Result<std::unique_ptr<AgentsSource>> AgentsSource::open(const std::vector<std::string>& addresses,
                                                         std::string token) {
  return live_module_function("commlens_http_get")
      .and_then([&](void* entry) -> Result<std::unique_ptr<AgentsSource>> {
        if (entry == nullptr) {
          return failure(
              "agents cannot be asked: this commlens was built without libcurl; build it where "
              "libcurl4-openssl-dev is installed, or let them write into a folder (--publish)");
        }
        return std::unique_ptr<AgentsSource>(
            new AgentsSource(reinterpret_cast<HttpGetFunction>(entry), addresses, std::move(token)));
      });
}

AgentsSource::AgentsSource(HttpGetFunction get, const std::vector<std::string>& addresses, std::string token)
    : get_(get), addresses_(addresses) {
  request_.token = std::move(token);
  for (const std::string& address : addresses_) {
    request_.urls.push_back(node_url(address));
  }
  thread_ = std::thread([this] { work(); });
}

AgentsSource::~AgentsSource() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AgentsSource::work() {
  const auto is_stopped = [this] {
    const std::scoped_lock lock(mutex_);
    return is_stopped_;
  };
  while (!is_stopped()) {
    const auto next = std::chrono::steady_clock::now() + k_pause;
    get_(request_, is_stopped, [this](std::size_t row, GetOutcome&& outcome) {
      const std::scoped_lock lock(mutex_);
      news_[row] = std::move(outcome);
    });
    std::unique_lock lock(mutex_);
    has_asked_all_ = true;
    changed_.notify_all();
    changed_.wait_until(lock, next, [this] { return is_stopped_; });
  }
}

void AgentsSource::wait_for_answers() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_asked_all_; });
}

void AgentsSource::look(const Sink& sink) {
  std::map<std::size_t, GetOutcome> news;
  {
    const std::scoped_lock lock(mutex_);
    news.swap(news_);
  }
  for (const auto& [row, outcome] : news) {
    Result<NodeState> state =
        outcome.why.empty() ? node_state_from(outcome.body) : Result<NodeState>(failure(outcome.why));
    errors_.erase(row);
    if (state) {
      sink(addresses_[row], std::move(state));
    } else {
      errors_[row] = state.error().message;
    }
  }
  for (const auto& [row, error] : errors_) {
    sink(addresses_[row], failure(error));
  }
}

}  // namespace commlens
