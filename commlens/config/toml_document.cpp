#include "commlens/config/toml_document.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "commlens/config/tree_builder.hpp"

namespace commlens {
namespace {

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

/// As the file writes it, but for dates, which have no kind of their own here.
template <typename Value>
std::string text_of(const Value& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

class TreeWriter {
 public:
  explicit TreeWriter(TreeBuilder& builder) : builder_(builder) {}

  void write(const toml::node& node) {
    if (builder_.failed()) {
      return;
    }
    if (const toml::table* const table = node.as_table()) {
      write_table(*table);
    } else if (const toml::array* const array = node.as_array()) {
      builder_.begin(ConfigNode::Kind::list, line_of(node));
      for (const toml::node& item : *array) {
        write(item);
      }
      builder_.end();
    } else {
      write_scalar(node);
    }
  }

 private:
  /// toml++ sorts entries by key; here they are in the order of the file.
  void write_table(const toml::table& table) {
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) {
      entries.emplace_back(&key, &node);
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      const toml::source_position& left = a.first->source().begin;
      const toml::source_position& right = b.first->source().begin;
      return std::pair(left.line, left.column) < std::pair(right.line, right.column);
    });
    builder_.begin(ConfigNode::Kind::map, std::max(line_of(table), 1));
    for (const auto& [key, node] : entries) {
      builder_.scalar(std::string(key->str()), true, static_cast<int>(key->source().begin.line));
      write(*node);
    }
    builder_.end();
  }

  void write_scalar(const toml::node& node) {
    const int line = line_of(node);
    if (const auto* const text = node.as_string()) {
      builder_.scalar(text->get(), true, line);
    } else if (const auto* const integer = node.as_integer()) {
      builder_.scalar(std::to_string(integer->get()), false, line);
    } else if (const auto* const number = node.as_floating_point()) {
      builder_.scalar(fmt::format("{}", number->get()), false, line);
    } else if (const auto* const boolean = node.as_boolean()) {
      builder_.scalar(boolean->get() ? "true" : "false", false, line);
    } else if (const auto* const date = node.as_date()) {
      builder_.scalar(text_of(date->get()), true, line);
    } else if (const auto* const time = node.as_time()) {
      builder_.scalar(text_of(time->get()), true, line);
    } else if (const auto* const date_time = node.as_date_time()) {
      builder_.scalar(text_of(date_time->get()), true, line);
    }
  }

  TreeBuilder& builder_;
};

}  // namespace

Result<ConfigNode> parse_toml(std::string_view file, std::string_view content) {
  if (const Result<void> text = check_is_text(file, content); !text) {
    return tl::unexpected(text.error());
  }
  try {
    const toml::table table = toml::parse(content);
    TreeBuilder builder(file);
    TreeWriter(builder).write(table);
    if (builder.failed()) {
      return failure(builder.error());
    }
    return builder.root();
  } catch (const toml::parse_error& problem) {
    constexpr std::size_t longest_reason = 160;
    return failure(fmt::format("{}:{}: not valid TOML: {}", file, problem.source().begin.line,
                               shown_text(problem.description(), longest_reason)));
  }
}

}  // namespace commlens
