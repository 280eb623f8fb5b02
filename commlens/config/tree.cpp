#include "commlens/config/tree.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

std::string shown(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null:
      return "empty";
    case ConfigNode::Kind::list:
      return "a list";
    case ConfigNode::Kind::map:
      return "a map";
    case ConfigNode::Kind::scalar:
      break;
  }
  const char quote = node.quoted ? '"' : '\'';
  return fmt::format("{0}{1}{0}", quote, shown_text(node.text));
}

tl::unexpected<Error> wrong_type(const ConfigNode& node, std::string_view wanted) {
  return failure(fmt::format("must be {}, it is {}", wanted, shown(node)));
}

bool is_plain(const ConfigNode& node) { return node.kind == ConfigNode::Kind::scalar && !node.quoted; }

std::optional<double> finite_number(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = status == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

std::string without_underscores(std::string text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789_+-.eE") == std::string::npos;
  if (is_number) {
    std::erase(text, '_');
  }
  return text;
}

}  // namespace

std::string shown_text(std::string_view text, std::size_t longest) {
  std::size_t end = std::min(text.size(), longest);
  const auto continues_a_letter = [&](std::size_t at) {  // of UTF-8
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && end < text.size() && continues_a_letter(end)) {
    --end;
  }
  std::string shown(text.substr(0, end));
  std::replace_if(
      shown.begin(), shown.end(), [](char letter) { return static_cast<unsigned char>(letter) < 0x20; }, ' ');
  return end < text.size() ? shown + "…" : shown;
}

std::string ConfigNode::where() const { return fmt::format("{}:{}", file, line); }

const ConfigNode* find(const ConfigNode& map, std::string_view key) {
  const auto found = std::find(map.keys.rbegin(), map.keys.rend(), key);
  if (found == map.keys.rend()) {
    return nullptr;
  }
  return &map.items[static_cast<std::size_t>(map.keys.rend() - found) - 1];
}

void append(ConfigNode& map, std::string key, ConfigNode value) {
  map.keys.push_back(std::move(key));
  map.items.push_back(std::move(value));
}

Result<std::int64_t> as_integer(const ConfigNode& node) {
  if (!is_plain(node)) {
    return wrong_type(node, "an integer");
  }
  const std::string text = without_underscores(node.text);
  if (const Result<std::int64_t> value = parse_integer(text)) {
    return *value;
  }
  constexpr double largest = 4.0e18;
  const std::optional<double> number = finite_number(text);
  if (number && *number == std::floor(*number) && std::fabs(*number) <= largest) {
    return static_cast<std::int64_t>(*number);
  }
  if (number && std::fabs(*number) > largest) {
    return failure(fmt::format("is {}, which does not fit 62 bits", shown(node)));
  }
  return wrong_type(node, "an integer");
}

Result<double> as_number(const ConfigNode& node) {
  const std::optional<double> number =
      is_plain(node) ? finite_number(without_underscores(node.text)) : std::nullopt;
  if (!number) {
    return wrong_type(node, "a number");
  }
  return *number;
}

Result<bool> as_boolean(const ConfigNode& node) {
  constexpr std::array<std::string_view, 9> yes = {"true", "True", "TRUE", "yes", "Yes",
                                                   "YES",  "on",   "On",   "ON"};
  constexpr std::array<std::string_view, 9> no = {"false", "False", "FALSE", "no", "No",
                                                  "NO",    "off",   "Off",   "OFF"};
  if (is_plain(node) && std::find(yes.begin(), yes.end(), node.text) != yes.end()) {
    return true;
  }
  if (is_plain(node) && std::find(no.begin(), no.end(), node.text) != no.end()) {
    return false;
  }
  return wrong_type(node, "true or false");
}

Result<std::string> as_text(const ConfigNode& node) {
  if (node.kind != ConfigNode::Kind::scalar) {
    return wrong_type(node, "text");
  }
  return node.text;
}

bool is_off(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null:
      return true;
    case ConfigNode::Kind::list:
      return node.items.empty();
    case ConfigNode::Kind::map: {
      const ConfigNode* enabled = find(node, "enabled");
      return node.items.empty() || (enabled != nullptr && is_off(*enabled));
    }
    case ConfigNode::Kind::scalar:
      break;
  }
  const bool is_none = node.text.empty() || node.text == "none" || node.text == "None";
  return is_none || !as_boolean(node).value_or(true) || as_number(node).value_or(1) == 0;
}

void use_underscores(ConfigNode& node) {
  for (std::string& key : node.keys) {
    std::replace(key.begin(), key.end(), '-', '_');
  }
  for (ConfigNode& item : node.items) {
    use_underscores(item);
  }
}

Result<void> check_is_text(std::string_view file, std::string_view content) {
  if (content.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return failure(fmt::format("{}: the file is empty", file));
  }
  const auto is_binary = [](char byte) {
    return (static_cast<unsigned char>(byte) < 0x20 &&
            std::string_view("\t\n\r\f\v\b\x1b").find(byte) == std::string_view::npos);
  };
  const auto binary = std::find_if(content.begin(), content.end(), is_binary);
  if (binary != content.end()) {
    return failure(fmt::format("{}:{}: not a text file (byte 0x{:02x})", file,
                               1 + std::count(content.begin(), binary, '\n'),
                               static_cast<unsigned char>(*binary)));
  }
  return {};
}

}  // namespace commlens
