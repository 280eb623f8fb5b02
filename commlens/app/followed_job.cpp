#include "commlens/app/followed_job.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <regex>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/live/http/agents.hpp"
#include "commlens/live/http/secret_file.hpp"
#include "commlens/live/spool.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_process.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_longest_address = 2048;

/// Why states of nodes are not enough for what is asked; empty: they are.
std::string needs_folder(const WatchRequest& request) {
  if (request.expected || !request.baseline.empty()) {
    return "states of nodes have no calls to compare with --predict or --baseline; "
           "follow a folder that has the files of all ranks";
  }
  return request.publish.empty() ? "" : "--publish is for the one who follows the folder of a node";
}

/// What is wrong with a path that is not there and that looks as if an address of a serve was meant: without
/// the colon of http://, or HOST:PORT alone. Empty: nothing; "run:1" may be a folder that appears later.
std::string flawed_address(const std::string& place) {
  static const std::regex scheme("https?//.*", std::regex::icase);
  static const std::regex host_and_port(
      "([A-Za-z0-9_-]*\\.[A-Za-z0-9._-]+|localhost|\\[[0-9A-Fa-f:]+\\]):([1-9][0-9]{3,4})(/.*)?",
      std::regex::icase);
  constexpr int first_port = 1024;  // those below are for services of the machine
  constexpr int last_port = 65535;
  std::error_code unknown;
  if (place.size() >= k_longest_address || std::filesystem::exists(place, unknown)) {
    return "";
  }
  std::smatch parts;
  const bool is_form = std::regex_match(place, parts, host_and_port);
  const int port = is_form ? std::stoi(parts[2]) : 0;
  if (port >= first_port && port <= last_port) {
    return fmt::format("{}: no directory, and no address of a serve; write http://{}{}", place, place,
                       place.find('/') == std::string::npos ? "/" : "");
  }
  return std::regex_match(place, scheme) ? "no directory, and no address of a serve; write http://HOST:PORT/"
                                         : "";
}

/// Whom to ask instead of reading files, if anybody.
Result<std::vector<std::string>> agents_at(const JobPlace& job) {
  if (!job.agents_file.empty()) {
    return read_agents(job.agents_file);
  }
  if (!is_url(job.place)) {
    const std::string flaw = flawed_address(job.place);
    return flaw.empty() ? Result<std::vector<std::string>>(std::vector<std::string>()) : failure(flaw);
  }
  return is_address(job.place)
             ? Result<std::vector<std::string>>({job.place})
             : failure(
                   "no address of a serve; write http://HOST:PORT/, and a token into --agents-token-file");
}

FollowOptions options_of(const WatchRequest& request) {
  constexpr std::chrono::milliseconds second_look(1000);
  FollowOptions options;
  options.hang_after = request.hang_after;
  options.is_single = request.is_single;
  options.is_part = !request.publish.empty();
  options.ignores_pauses = request.ignores_pauses;
  options.keeps_iterations = request.expected.has_value() || !request.baseline.empty();
  options.keeps_times = !request.baseline.empty();
  if (request.is_single && !request.hang_after) {
    options.hang_after = second_look;
  }
  return options;
}

}  // namespace

Result<WatchRequest> followed_at(const JobPlace& job) {
  if (job.place.empty() == job.agents_file.empty()) {
    return failure("say what to look at: a directory, a URL, or --agents FILE");
  }
  std::error_code unknown;
  if (!job.publish.empty() && std::filesystem::equivalent(job.publish, job.place, unknown)) {
    return failure("--publish: states of nodes have a directory of their own, not that of the recording");
  }
  WatchRequest request;
  request.publish = job.publish;
  return agents_at(job).and_then([&](std::vector<std::string> agents) -> Result<WatchRequest> {
    request.directory = agents.empty() ? job.place : "";
    request.agents = std::move(agents);
    if (job.token_file.empty()) {
      return std::move(request);
    }
    if (request.agents.empty()) {
      return failure("--agents-token-file is for agents; name a URL, or --agents FILE");
    }
    return read_secret_file(job.token_file, "a token").map([&](std::string token) {
      request.agents_token = std::move(token);
      return std::move(request);
    });
  });
}

bool is_of_nodes(const std::string& place) {
  std::error_code unknown;
  if (is_url(place) || !flawed_address(place).empty()) {
    return true;
  }
  return !std::filesystem::exists(std::filesystem::path(place) / k_manifest_name, unknown) &&
         has_node_states(place);
}

Result<FollowedJobSource> FollowedJobSource::open(const WatchRequest& request) {
  const FollowOptions options = options_of(request);
  if (!request.publish.empty()) {
    if (const Result<void> made = make_spool(request.publish); !made) {
      return failure("--publish " + made.error().message);
    }
  }
  FollowedJobSource job(FolderFollower(request.directory, options), options);
  job.directory_ = request.directory;
  job.needs_folder_ = needs_folder(request);
  if (request.agents.empty()) {
    return job;
  }
  if (!job.needs_folder_.empty()) {
    return failure(fmt::format("{}: {}", request.agents.front(), job.needs_folder_));
  }
  return AgentsSource::open(request.agents, request.agents_token)
      .map([&](std::unique_ptr<AgentsSource> source) {
        if (request.is_single) {
          source->wait_for_answers();
        }
        job.follower_ = NodesFollower(std::move(source), request.agents.front(), options);
        return std::move(job);
      });
}

Result<void> FollowedJobSource::look_for_states() {
  const FolderFollower* const folder = std::get_if<FolderFollower>(&follower_);
  if (folder == nullptr || folder->view().generation > 0 || !has_node_states(directory_)) {
    return {};
  }
  if (!needs_folder_.empty()) {
    return failure(fmt::format("{}: {}", directory_, needs_folder_));
  }
  const std::string name = folder->view().name;
  follower_ = NodesFollower(std::make_unique<SpoolSource>(directory_), name, options_);
  return {};
}

Result<void> FollowedJobSource::poll(PollTime time) {
  FolderFollower* const its = folder();
  return (its != nullptr ? its->poll(time) : Result<void>())
      .and_then([&] { return look_for_states(); })
      .map([&] {
        if (NodesFollower* const nodes = std::get_if<NodesFollower>(&follower_)) {
          nodes->poll(time);
        }
      });
}

const JobView& FollowedJobSource::view() const {
  return std::visit([](const auto& follower) -> const JobView& { return follower.view(); }, follower_);
}

void NodePublisher::look(const JobView& view, PollTime time) {
  const bool is_due =
      request_.is_single || view.state != state_ || !written_ || time.steady - *written_ >= k_pause;
  if (request_.publish.empty() || view.generation == 0 || !is_due) {
    return;
  }
  written_ = time.steady;
  state_ = view.state;
  const std::filesystem::path file = std::filesystem::path(request_.publish) / state_file_name(own_host());
  const std::optional<PlainFile::Look> found = PlainFile::look_at(file);
  if (file_ && found && *found != *file_) {
    warn(fmt::format(
        "{}: somebody else writes it, too; machines need names of their own, and each job a directory",
        file.string()));
  }
  try {
    const std::chrono::nanoseconds interval = std::max<std::chrono::nanoseconds>(k_pause, request_.interval);
    write_node_state(request_.publish, node_state_of(view, own_host(), interval));
    file_ = PlainFile::look_at(file);
  } catch (const SystemError& error) {
    warn(error.what());
  }
}

/// Once, until there is something else to say.
void NodePublisher::warn(const std::string& what) {
  if (std::exchange(warning_, what) != what) {
    request_.events.warn(what);
  }
}

}  // namespace commlens
