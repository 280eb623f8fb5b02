#include "commlens/config/argument_words.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/tree.hpp"
#include "commlens/config/tree_builder.hpp"

namespace commlens {
namespace {

/// Splits a text as a shell would, as far as argument files need it.
class Words {
 public:
  Words(std::string_view file, std::string_view content) : file_(file), content_(content) {}

  Result<std::vector<ArgumentWord>> all() {
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
    ArgumentWord word;
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
  std::vector<ArgumentWord> words_;
};

}  // namespace

Result<std::vector<ArgumentWord>> argument_words(std::string_view file, std::string_view content) {
  if (const Result<void> text = check_is_text(file, content); !text) {
    return tl::unexpected(text.error());
  }
  Result<std::vector<ArgumentWord>> words = Words(file, content).all();
  if (words && words->size() > static_cast<std::size_t>(TreeBuilder::k_most_nodes)) {
    return failure(fmt::format("{}: more than {} words; no argument file is that large", file,
                               TreeBuilder::k_most_nodes));
  }
  return words;
}

std::vector<std::string> argument_names(std::string_view content) {
  std::vector<std::string> names;
  const Result<std::vector<ArgumentWord>> words = argument_words("", content);
  if (!words) {
    return names;
  }
  for (const ArgumentWord& word : *words) {
    if (word.text.starts_with("--")) {
      std::string name = word.text.substr(2, word.text.find('=') - 2);
      std::replace(name.begin(), name.end(), '-', '_');
      names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace commlens
