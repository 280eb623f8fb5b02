#include "commlens/live/http/agents.hpp"

#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/live/http/live_module.hpp"

namespace commlens {

bool is_url(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

bool is_address(std::string_view text) {
  const std::size_t begin = text.find("://");
  const std::string_view rest = is_url(text) ? text.substr(begin + 3) : std::string_view();
  const std::string_view host = rest.substr(0, rest.find('/'));
  return !host.empty() && host.find('@') == std::string_view::npos;
}

std::string node_url(const std::string& address) {
  return fmt::format("{}{}api/v1/node", address, address.ends_with('/') ? "" : "/");
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
