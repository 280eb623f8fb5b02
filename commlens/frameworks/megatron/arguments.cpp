// Files of `--name value` arguments.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/config/tree_builder.hpp"
#include "commlens/frameworks/megatron/reader.hpp"

namespace commlens {
namespace {

/// A word of the file and its line.
struct Word {
  std::string text;
  int line = 1;
};

/// Splits a text as a shell would, as far as argument files need it.
class Words {
 public:
  Words(std::string_view file, std::string_view content) : file_(file), content_(content) {}

  Result<std::vector<Word>> all() {
    while (skip_to_word()) {
      if (const Result<void> ok = take_word(); !ok) {
        return tl::unexpected(ok.error());
      }
    }
    return std::move(words_);
  }

 private:
  bool at_end() const { return at_ >= content_.size(); }
  char peek() const { return content_[at_]; }
  char next() {
    const char letter = content_[at_++];
    line_ += letter == '\n' ? 1 : 0;
    return letter;
  }
  static bool is_space(char letter) {
    return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r';
  }

  bool skip_to_word() {
    while (!at_end()) {
      const bool ends_line = peek() == '\\' && (at_ + 1 == content_.size() || is_space(content_[at_ + 1]));
      if (is_space(peek()) || ends_line) {
        next();
      } else if (peek() == '#') {
        at_ = std::min(content_.find('\n', at_), content_.size());
      } else {
        return true;
      }
    }
    return false;
  }

  Result<void> take_word() {
    Word word;
    word.line = line_;
    while (!at_end() && !is_space(peek())) {
      const char letter = next();
      if (letter == '"' || letter == '\'') {
        const std::size_t close = content_.find(letter, at_);
        if (close == std::string_view::npos) {
          return failure(fmt::format("{}:{}: the quote is never closed", file_, word.line));
        }
        while (at_ < close) {
          word.text += next();
        }
        next();
      } else if (letter == '\\' && !at_end()) {
        const char escaped = next();
        word.text += escaped == '\n' ? "" : std::string(1, escaped);
      } else {
        word.text += letter;
      }
    }
    words_.push_back(std::move(word));
    return {};
  }

  std::string file_;
  std::string content_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Word> words_;
};

/// Gathers words into a map: a name, then the words up to the next name.
class ArgumentMap {
 public:
  explicit ArgumentMap(std::string_view file) {
    map_.kind = ConfigNode::Kind::map;
    map_.file = file;
    map_.line = 1;
  }

  Result<void> add(const Word& word) {
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

  void add_value(ConfigNode& argument, const Word& word) {
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
  if (const Result<void> text = check_is_text(file, content); !text) {
    return tl::unexpected(text.error());
  }
  Result<std::vector<Word>> words = Words(file, content).all();
  if (!words) {
    return tl::unexpected(words.error());
  }
  if (words->size() > static_cast<std::size_t>(TreeBuilder::k_most_nodes)) {
    return failure(fmt::format("{}: more than {} words; no argument file is that large", file,
                               TreeBuilder::k_most_nodes));
  }
  ArgumentMap map(file);
  for (const Word& word : *words) {
    if (const Result<void> ok = map.add(word); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return map.take();
}

}  // namespace commlens
