// Files of `--name value` arguments.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/config/argument_words.hpp"
#include "commlens/frameworks/megatron/reader.hpp"

namespace commlens {
namespace {

/// Gathers words into a map: a name, then the words up to the next name.
class ArgumentMap {
 public:
  explicit ArgumentMap(std::string_view file) {
    map_.kind = ConfigNode::Kind::map;
    map_.file = file;
    map_.line = 1;
  }

  Result<void> add(const ArgumentWord& word) {
    const bool is_name = word.text.starts_with("--") && word.text.size() > 2;
    if (is_name) {
      const std::size_t equals = std::min(word.text.find('='), word.text.size());
      has_value_ = equals < word.text.size();
      append(map_, word.text.substr(2, equals - 2),
             scalar(word.line, has_value_ ? word.text.substr(equals + 1) : "true"));
      return {};
    }
    if (map_.items.empty()) {
      return failure(
          fmt::format("{}:{}: '{}' belongs to no argument; a file of Megatron arguments starts with --name",
                      map_.file, word.line, shown_text(word.text)));
    }
    add_value(map_.items.back(), word);
    return {};
  }

  ConfigNode take() {
    use_underscores(map_);
    return std::move(map_);
  }

 private:
  ConfigNode scalar(int line, std::string text) const {
    ConfigNode node;
    node.kind = ConfigNode::Kind::scalar;
    node.file = map_.file;
    node.line = line;
    node.text = std::move(text);
    return node;
  }

  void add_value(ConfigNode& argument, const ArgumentWord& word) {
    if (!has_value_) {
      argument.text = word.text;
      has_value_ = true;
      return;
    }
    if (argument.kind == ConfigNode::Kind::scalar) {
      const ConfigNode first = argument;
      argument.items.push_back(first);
      argument.kind = ConfigNode::Kind::list;
    }
    argument.items.push_back(scalar(word.line, word.text));
  }

  ConfigNode map_;
  bool has_value_ = false;  // of the last name
};

}  // namespace

Result<ConfigNode> parse_megatron_arguments(std::string_view file, std::string_view content) {
  const Result<std::vector<ArgumentWord>> words = argument_words(file, content);
  return words ? megatron_arguments(file, *words) : tl::unexpected(words.error());
}

Result<ConfigNode> megatron_arguments(std::string_view file, const std::vector<ArgumentWord>& words) {
  ArgumentMap map(file);
  for (const ArgumentWord& word : words) {
    if (const Result<void> ok = map.add(word); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return map.take();
}

}  // namespace commlens
