#include "commlens/config/map_reader.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/config/key_synonyms.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_warnings = 20;  // of one map; a file full of junk needs no more

std::string in_quotes(std::string_view name) { return fmt::format("'{}'", shown_text(name)); }

}  // namespace

bool is_one_of(std::string_view word, std::string_view words) {
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) {
      return !word.empty() && word.find(' ') == std::string_view::npos;
    }
  }
  return false;
}

MapReader::MapReader(const ConfigNode& map, ReaderNotes notes) : map_(map), notes_(notes) {
  if (map.kind == ConfigNode::Kind::scalar || map.kind == ConfigNode::Kind::list) {
    fail_at(map, "keys with values are expected here");
    return;
  }
  std::size_t repeated = 0;
  for (std::size_t index = 0; index < map.keys.size(); ++index) {
    const auto [entry, is_new] = last_.emplace(map.keys[index], index);
    if (!is_new && repeated++ < k_most_warnings) {
      notes_.warnings.push_back(fmt::format("{}: {} repeats line {}; the last one counts",
                                            map.items[index].where(), in_quotes(map.keys[index]),
                                            map.items[entry->second].line));
    }
    entry->second = index;
  }
}

const ConfigNode* MapReader::node(std::string_view key) {
  known_.emplace(key);
  const auto found = last_.find(std::string(key));
  if (failed() || found == last_.end() || map_.items[found->second].kind == ConfigNode::Kind::null) {
    return nullptr;
  }
  return &map_.items[found->second];
}

bool MapReader::has(std::string_view key) { return node(key) != nullptr; }

const ConfigNode* MapReader::map(std::string_view key) {
  const ConfigNode* value = node(key);
  if (value != nullptr && value->kind != ConfigNode::Kind::map) {
    fail(key, "must hold keys with values");
    return nullptr;
  }
  return value;
}

template <typename Value, typename Convert>
void MapReader::convert(std::string_view key, Value& value, Convert as_value) {
  const ConfigNode* text = node(key);
  if (text == nullptr) {
    return;
  }
  const Result<Value> converted = as_value(*text);
  if (converted) {
    value = *converted;
  } else {
    fail(key, converted.error().message);
  }
}

void MapReader::read(std::string_view key, std::int64_t& value, std::int64_t least) {
  std::int64_t number = least;
  convert(key, number, as_integer);
  if (number < least) {
    fail(key, fmt::format("is {}; it must be at least {}", number, least));
  } else if (has(key)) {
    value = number;
  }
}

void MapReader::read(std::string_view key, double& value) { convert(key, value, as_number); }
void MapReader::read(std::string_view key, bool& value) { convert(key, value, as_boolean); }
void MapReader::read(std::string_view key, std::string& value) { convert(key, value, as_text); }

const ConfigNode* MapReader::list(std::string_view key) {
  const ConfigNode* const found = node(key);
  if (found == nullptr || failed()) {
    return nullptr;
  }
  if (found->kind != ConfigNode::Kind::list) {
    fail(key, "must be a list");
    return nullptr;
  }
  return found;
}

void MapReader::read(std::string_view key, std::vector<std::string>& values) {
  const ConfigNode* const found = list(key);
  if (found == nullptr) {
    return;
  }
  values.clear();
  for (const ConfigNode& item : found->items) {
    const Result<std::string> text = as_text(item);
    if (!text) {
      fail_at(item, text.error().message);
      return;
    }
    values.push_back(*text);
  }
}

void MapReader::read(std::string_view key, std::vector<std::int64_t>& values, std::int64_t least) {
  const ConfigNode* const found = list(key);
  if (found == nullptr) {
    return;
  }
  values.clear();
  for (const ConfigNode& item : found->items) {
    const Result<std::int64_t> value = as_integer(item);
    if (!value || *value < least) {
      fail(key, fmt::format("must have integers of at least {}", least));
      return;
    }
    values.push_back(*value);
  }
}

void MapReader::require(std::string_view key, std::int64_t& value) {
  if (!failed() && !has(key)) {
    const std::vector<std::string_view> keys(map_.keys.begin(), map_.keys.end());
    const std::string other = same_setting(key, keys);
    if (!other.empty() && !known_.contains(other)) {
      fail_at(map_, fmt::format("'{}' is missing; is '{}' ({}) meant?", key, other, where(other)));
      return;
    }
    const std::string similar = nearest(key, keys);
    constexpr std::size_t shortest_word = 4;  // shorter keys are similar by chance
    const bool is_misspelt = key.size() >= shortest_word && !similar.empty() && !known_.contains(similar);
    fail_at(map_, is_misspelt
                      ? fmt::format("'{}' is missing; is '{}' ({}) misspelt?", key, similar, where(similar))
                      : fmt::format("'{}' is missing", key));
  }
  read(key, value);
}

std::size_t MapReader::index_of_choice(std::string_view key, std::span<const std::string_view> choices) {
  std::string text;
  convert(key, text, as_text);
  if (failed() || !has(key)) {
    return choices.size();
  }
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found == choices.end()) {
    fail(key, fmt::format("is {}, which is not supported; choose from {}", in_quotes(text),
                          fmt::join(choices, ", ")));
  }
  return static_cast<std::size_t>(found - choices.begin());
}

void MapReader::accept(std::string_view keys) {
  while (!keys.empty()) {
    const std::size_t end = std::min(keys.find(' '), keys.size());
    known_.emplace(keys.substr(0, end));
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
}

void MapReader::skip(std::string_view key, std::string_view name) {
  constexpr std::size_t longest = 80;
  const std::string quoted = fmt::format("'{}'", shown_text(name.empty() ? key : name, longest));
  const auto is_noted = [&](const std::string& note) { return note.starts_with(quoted + " ("); };
  if (node(key) == nullptr || std::any_of(notes_.unmodelled.begin(), notes_.unmodelled.end(), is_noted)) {
    return;
  }
  notes_.warnings.push_back(
      fmt::format("{}: {} has no rules here; it is skipped, unverified", where(key), quoted));
  notes_.unmodelled.push_back(fmt::format("{} ({}) has no rules", quoted, where(key)));
}

void MapReader::skip_unless_off(std::string_view keys) {
  while (!keys.empty()) {
    const std::size_t end = std::min(keys.find(' '), keys.size());
    const ConfigNode* value = node(keys.substr(0, end));
    if (value != nullptr && !is_off(*value)) {
      skip(keys.substr(0, end));
    }
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
}

void MapReader::skip_unless_one(std::string_view key) {
  const ConfigNode* value = node(key);
  if (value != nullptr && !is_off(*value) && as_integer(*value).value_or(0) != 1) {
    skip(key);
  }
}

void MapReader::refuse(std::string_view key, std::string_view reason) {
  if (has(key)) {
    fail(key, reason);
  }
}

void MapReader::refuse_true(std::string_view key, std::string_view reason) {
  bool is_on = false;
  read(key, is_on);
  if (is_on) {
    fail(key, reason);
  }
}

std::string MapReader::where(std::string_view key) const {
  const auto found = last_.find(std::string(key));
  return found == last_.end() ? map_.where() : map_.items[found->second].where();
}

void MapReader::fail(std::string_view key, std::string_view reason) {
  const auto found = last_.find(std::string(key));
  fail_at(found == last_.end() ? map_ : map_.items[found->second], fmt::format("'{}' {}", key, reason));
}

void MapReader::fail_at(const ConfigNode& node, std::string_view reason) {
  if (error_.empty()) {
    error_ = fmt::format("{}: {}", node.where(), reason);
  }
}

void MapReader::pass_on(const Result<void>& part) {
  if (!part && error_.empty()) {
    error_ = part.error().message;
  }
}

void MapReader::warn_of(std::size_t index) {
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  const std::string meant = meant_key(map_.keys[index], known);
  notes_.warnings.push_back(fmt::format("{}: unknown key {}{}", map_.items[index].where(),
                                        in_quotes(map_.keys[index]),
                                        meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
  if (map_.items[index].kind != ConfigNode::Kind::null) {
    notes_.unmodelled.push_back(
        fmt::format("unknown key {} ({})", in_quotes(map_.keys[index]), map_.items[index].where()));
  }
}

Result<void> MapReader::finish() {
  if (failed()) {
    return failure(error_);
  }
  std::size_t unknown = 0;
  for (std::size_t index = 0; index < map_.keys.size(); ++index) {
    if (known_.contains(map_.keys[index])) {
      continue;
    }
    if (unknown++ < k_most_warnings) {
      warn_of(index);
    }
  }
  if (unknown > k_most_warnings) {
    const std::size_t more = unknown - k_most_warnings;
    notes_.warnings.push_back(fmt::format("{}: {} more unknown keys", map_.where(), more));
    notes_.unmodelled.push_back(fmt::format("{} more unknown keys ({})", more, map_.where()));
  }
  return {};
}

}  // namespace commlens
