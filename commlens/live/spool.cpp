#include "commlens/live/spool.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"

namespace commlens {

namespace fs = std::filesystem;

namespace {

/// Names of states in a folder, in order; `cause`: why it cannot be read, 0: it can.
std::vector<std::string> state_names(const fs::path& folder, std::error_code& cause) {
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, cause);
  while (!cause && entry != fs::directory_iterator()) {
    std::string name = entry->path().filename().string();
    if (name.size() > k_state_ending.size() && name.ends_with(k_state_ending)) {
      names.push_back(std::move(name));
    }
    entry.increment(cause);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// By the clocks of this machine and of the file system; of a file that was there before it was followed.
std::chrono::nanoseconds age_of(const PlainFile::Look& look) {
  const std::int64_t age = PollTime::now().unix_ns - look.changed_ns;
  constexpr std::int64_t longest = std::int64_t{1} << 56;
  return std::chrono::nanoseconds(std::clamp<std::int64_t>(age, 0, longest));
}

}  // namespace

std::string state_file_name(const std::string& node) {
  std::string name = node.empty() ? "_" : node.substr(0, 200);
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
  };
  for (char& letter : name) {
    letter = is_plain(static_cast<unsigned char>(letter)) ? letter : '_';
  }
  name.front() = name.front() == '.' ? '_' : name.front();
  return name.append(k_state_ending);
}

Result<void> make_spool(const fs::path& spool) {
  std::error_code cause;
  fs::create_directory(spool, cause);
  const bool is_there = !cause && fs::is_directory(spool, cause);
  return is_there ? Result<void>()
                  : failure(fmt::format("{}: no directory for states of nodes: {}", spool.string(),
                                        cause ? cause.message() : "it is something else"));
}

void write_node_state(const fs::path& spool, const NodeState& state) {
  write_file_atomically(spool / state_file_name(state.node), node_state_text(state));
}

bool has_node_states(const fs::path& folder) {
  std::error_code cause;
  return !state_names(folder, cause).empty();
}

void SpoolSource::read(const PlainFile& directory, const fs::path& name, const Sink& sink) {
  const std::string place = (folder_ / name).string();
  const PlainFile file = PlainFile::open_in(directory, name);
  const std::optional<PlainFile::Look> now = file.look();
  if (!now) {
    sink(place, failure(std::strerror(file.cause())));
    return;
  }
  const auto before = read_.find(name.string());
  if (before != read_.end() && before->second.look == *now) {
    if (!before->second.error.empty()) {
      sink(place, failure(before->second.error));
    }
    return;
  }
  if (now->bytes > k_largest_state) {
    sink(place, failure("too large for the state of a node"));
    return;
  }
  std::string text(now->bytes, '\0');
  if (file.read(0, std::as_writable_bytes(std::span(text))) < text.size()) {
    sink(place, failure("could not be read to its end"));  // it is tried again
    return;
  }
  Result<NodeState> state = node_state_from(text);
  if (state && before == read_.end()) {
    state->age = age_of(*now);
  }
  read_[name.string()] = {*now, state ? "" : state.error().message};
  sink(place, std::move(state));
}

void SpoolSource::look(const Sink& sink) {
  std::error_code cause;
  const std::vector<std::string> names = state_names(folder_, cause);
  const PlainFile directory = PlainFile::open_directory(folder_);
  if (cause || !directory.is_open()) {
    sink(folder_.string(), failure(cause ? cause.message() : std::strerror(directory.cause())));
    return;
  }
  for (const std::string& name : names) {
    read(directory, name, sink);
  }
}

}  // namespace commlens
