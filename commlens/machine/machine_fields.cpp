#include "commlens/machine/machine_fields.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace

void MachineFields::fail(const ConfigNode& node, const std::string& path, std::string_view reason) {
  if (error_.empty()) {
    error_ = fmt::format("{}: {}: {}", node.where(), path, reason);
  }
}

const ConfigNode* MachineFields::field(const ConfigNode& map, const std::string& path, std::string_view key,
                                       bool must) {
  const ConfigNode* const node = map.kind == ConfigNode::Kind::map ? find(map, key) : nullptr;
  if (must && (node == nullptr || node->kind == ConfigNode::Kind::null)) {
    fail(map, joined(path, key), "is missing");
  }
  return node == nullptr || node->kind == ConfigNode::Kind::null ? nullptr : node;
}

std::string MachineFields::text(const ConfigNode& map, const std::string& path, std::string_view key,
                                bool must) {
  const ConfigNode* const node = field(map, path, key, must);
  if (node == nullptr) {
    return "";
  }
  if (node->kind != ConfigNode::Kind::scalar || !node->quoted || (must && node->text.empty())) {
    fail(*node, joined(path, key), "must be a text");
  }
  return node->text;
}

double MachineFields::number(const ConfigNode& node, const std::string& path) {
  const Result<double> value = as_number(node);
  if (!value) {
    fail(node, path, value.error().message);
  }
  return value.value_or(0);
}

std::int64_t MachineFields::count(const ConfigNode& node, const std::string& path) {
  const double value = number(node, path);
  if (value < 0 || value > 1e15 || value != std::floor(value)) {
    fail(node, path, fmt::format("{} is no whole number from 0 to 1e15", node.text));
    return 0;
  }
  return static_cast<std::int64_t>(value);
}

std::vector<std::int64_t> MachineFields::counts(const ConfigNode& map, const std::string& path,
                                                std::string_view key) {
  std::vector<std::int64_t> result;
  for (const ConfigNode& item : items(map, path, key)) {
    result.push_back(count(item, joined(path, key)));
  }
  return result;
}

std::vector<double> MachineFields::numbers(const ConfigNode& map, const std::string& path,
                                           std::string_view key) {
  std::vector<double> result;
  for (const ConfigNode& item : items(map, path, key)) {
    result.push_back(number(item, joined(path, key)));
  }
  return result;
}

const std::vector<ConfigNode>& MachineFields::items(const ConfigNode& map, const std::string& path,
                                                    std::string_view key) {
  static const std::vector<ConfigNode> none;
  const ConfigNode* const node = field(map, path, key, false);
  if (node != nullptr && node->kind != ConfigNode::Kind::list) {
    fail(*node, joined(path, key), "must be a list");
  }
  return node == nullptr || node->kind != ConfigNode::Kind::list ? none : node->items;
}

bool MachineFields::flag(const ConfigNode& map, std::string_view key) {
  const ConfigNode* const node = field(map, "", key, false);
  const Result<bool> value = node == nullptr ? Result<bool>(false) : as_boolean(*node);
  if (!value) {
    fail(*node, std::string(key), value.error().message);
  }
  return value.value_or(false);
}

char MachineFields::confidence(const ConfigNode& map, const std::string& path) {
  const std::string letter = text(map, path, "confidence");
  if (letter.size() != 1 || std::string_view("ABCDM").find(letter) == std::string_view::npos) {
    fail(map, joined(path, "confidence"), "must be A, B, C, D or M (docs/machines.md)");
    return 'C';
  }
  return letter.front();
}

std::optional<Quantity> MachineFields::quantity(const ConfigNode& map, const std::string& path,
                                                std::string_view key, const QuantityRule& rule, bool must) {
  const ConfigNode* const node = field(map, path, key, must);
  if (node == nullptr) {
    return std::nullopt;
  }
  const std::string here = joined(path, key);
  if (node->kind != ConfigNode::Kind::map) {
    fail(*node, here,
         fmt::format("a number needs its unit, source and confidence: {{\"value\": {}, \"unit\": \"{}\", "
                     "\"source\": \"…\", \"confidence\": \"A\"}}",
                     node->kind == ConfigNode::Kind::scalar ? node->text : "…", rule.unit));
    return std::nullopt;
  }
  Quantity quantity;
  const ConfigNode* const value = field(*node, here, "value", true);
  quantity.value = value == nullptr ? 0 : number(*value, here + ".value");
  quantity.unit = text(*node, here, "unit");
  if (quantity.unit != rule.unit) {
    fail(*node, here + ".unit", fmt::format("is '{}'; it must be '{}'", quantity.unit, rule.unit));
  }
  quantity.source = text(*node, here, "source");
  quantity.confidence = confidence(*node, here);
  known(*node, here, {"value", "unit", "source", "confidence"});
  if (quantity.value < rule.least || quantity.value > rule.most) {
    fail(*node, here,
         fmt::format("{} {} cannot be: {} to {} are possible", quantity.value, quantity.unit, rule.least,
                     rule.most));
  }
  if (rule.is_count && quantity.value != std::floor(quantity.value)) {
    fail(*node, here, fmt::format("{} {} cannot be: they are counted", quantity.value, quantity.unit));
  }
  return quantity;
}

void MachineFields::known(const ConfigNode& map, const std::string& path,
                          std::initializer_list<std::string_view> keys) {
  for (std::size_t index = 0; index < map.keys.size(); ++index) {
    if (std::find(keys.begin(), keys.end(), map.keys[index]) == keys.end()) {
      const std::string near = nearest(map.keys[index], {keys.begin(), keys.size()});
      fail(map.items[index], joined(path, map.keys[index]),
           near.empty() ? "is not known" : fmt::format("is not known; did you mean '{}'?", near));
    }
  }
}

std::string MachineFields::choice(const ConfigNode& map, const std::string& path, std::string_view key,
                                  std::initializer_list<std::string_view> choices) {
  const std::string found = text(map, path, key);
  if (std::find(choices.begin(), choices.end(), found) == choices.end()) {
    const ConfigNode* const node = field(map, path, key, false);
    fail(node == nullptr ? map : *node, joined(path, key),
         fmt::format("'{}' is not known; choose {}", found, fmt::join(choices, ", ")));
  }
  return found;
}

void MachineFields::each_key_once(const ConfigNode& node, const std::string& path) {
  std::set<std::string_view> seen;
  for (std::size_t index = 0; index < node.items.size(); ++index) {
    const bool is_map = node.kind == ConfigNode::Kind::map;
    const std::string here = is_map ? joined(path, node.keys[index]) : path;
    if (is_map && !seen.insert(node.keys[index]).second) {
      fail(node.items[index], here, "is there twice");
    }
    each_key_once(node.items[index], here);
  }
}

}  // namespace commlens
