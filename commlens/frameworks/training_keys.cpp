#include "commlens/frameworks/training_keys.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/config/map_reader.hpp"

namespace commlens {
namespace {

void append_words(std::string_view words, std::vector<std::string_view>& all) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    all.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

/// The value of "section.key", or null.
const ConfigNode* at_path(const ConfigNode& map, std::string_view path) {
  const ConfigNode* node = &map;
  while (node != nullptr && !path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    node = node->kind == ConfigNode::Kind::map ? find(*node, path.substr(0, end)) : nullptr;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return node;
}

bool is_neutral(const ConfigNode& value, std::string_view neutral) {
  std::vector<std::string_view> words;
  append_words(neutral, words);
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    const Result<double> number = parse_number(word);
    if (word == "sequence") {
      return true;  // TrainingRecipe::attention_window keeps it until the sequence is known
    }
    return (word == "off" && is_off(value)) || value.text == word ||
           (number && as_number(value).value_or(*number + 1) == *number);
  });
}

std::string text_of(const ConfigNode& value) {
  switch (value.kind) {
    case ConfigNode::Kind::map:
      return "{…}";
    case ConfigNode::Kind::list:
      return "[…]";
    case ConfigNode::Kind::null:
    case ConfigNode::Kind::scalar:
      break;
  }
  return shown_text(value.text);
}

}  // namespace

std::optional<KeyUse> use_of(const TrainingKeys& keys, std::string_view key) {
  if (is_one_of(key, keys.honoured)) {
    return KeyUse::honoured;
  }
  if (is_one_of(key, keys.irrelevant)) {
    return KeyUse::irrelevant;
  }
  if (is_one_of(key, keys.refused)) {
    return KeyUse::refused;
  }
  const bool is_warned = std::any_of(keys.warned.begin(), keys.warned.end(),
                                     [&](const UnhonouredKey& each) { return each.name == key; });
  return is_warned ? std::optional(KeyUse::warned) : std::nullopt;
}

std::vector<std::string_view> known_keys(const TrainingKeys& keys) {
  std::vector<std::string_view> all;
  for (const std::string_view words : {keys.honoured, keys.irrelevant, keys.refused}) {
    append_words(words, all);
  }
  for (const UnhonouredKey& key : keys.warned) {
    all.push_back(key.name);
  }
  std::erase_if(all, [](std::string_view key) { return key.find('.') != std::string_view::npos; });
  return all;
}

bool is_known_key(const TrainingKeys& keys, std::string_view key) {
  return key.find('.') == std::string_view::npos && use_of(keys, key).has_value();
}

std::vector<std::string> not_honoured(const ConfigNode& map, const TrainingKeys& keys) {
  std::vector<std::string> texts;
  for (const UnhonouredKey& key : keys.warned) {
    const ConfigNode* value = at_path(map, key.name);
    if (value != nullptr && value->kind != ConfigNode::Kind::null && !is_neutral(*value, key.neutral)) {
      texts.push_back(not_honoured_text(key.name, text_of(*value), key.instead));
    }
  }
  return texts;
}

void accept_known_keys(MapReader& reader, const ConfigNode& map, const TrainingKeys& keys,
                       TrainingRecipe& recipe) {
  const std::vector<std::string> notes = not_honoured(map, keys);
  recipe.not_honoured.insert(recipe.not_honoured.end(), notes.begin(), notes.end());
  for (const std::string_view key : known_keys(keys)) {
    reader.accept(key);
  }
}

std::string not_honoured_text(std::string_view key, std::string_view value, std::string_view instead) {
  return fmt::format("{}={} ({})", key, value, instead);
}

}  // namespace commlens
