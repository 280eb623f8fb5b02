#include "commlens/config/shell_tokens.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/tree.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_tokens = 50'000;
constexpr int k_deepest_unit = 32;  // brackets inside brackets

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }
bool is_operator(char letter) { return std::string_view("\n;&|(){}").find(letter) != std::string_view::npos; }

/// Past the end of a bracket that opens at `at`; quotes and brackets inside count.
std::size_t end_of_bracket(std::string_view text, std::size_t at, char close, int depth);

std::size_t end_of_unit(std::string_view text, std::size_t at, int depth) {
  const auto after = [&](std::size_t found) {
    return found == std::string_view::npos ? text.size() : found + 1;
  };
  const char letter = text[at];
  if (letter == '\\') {
    return std::min(at + 2, text.size());
  }
  if (letter == '\'') {
    return after(text.find('\'', at + 1));
  }
  if (letter == '`') {
    return after(text.find('`', at + 1));
  }
  if (letter == '"') {
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != '"') {
      end = text[end] == '\'' ? end + 1 : end_of_unit(text, end, depth + 1);
    }
    return std::min(end + 1, text.size());
  }
  const bool opens = letter == '$' && at + 1 < text.size() && (text[at + 1] == '(' || text[at + 1] == '{');
  if (!opens) {
    return at + 1;
  }
  return end_of_bracket(text, at + 1, text[at + 1] == '(' ? ')' : '}', depth + 1);
}

std::size_t end_of_bracket(std::string_view text, std::size_t at, char close, int depth) {
  if (depth > k_deepest_unit) {
    return text.size();
  }
  std::size_t end = at + 1;
  int open = 1;
  while (end < text.size()) {
    if (text[end] == close && --open == 0) {
      return end + 1;
    }
    open += text[end] == text[at] ? 1 : 0;
    end = end_of_unit(text, end, depth + 1);
  }
  return text.size();
}

class ShellTokenizer {
 public:
  ShellTokenizer(std::string_view file, std::string_view content, int first_line)
      : file_(file), content_(content), line_(first_line) {}

  Result<std::vector<ShellToken>> all() {
    while (!at_end() && error_.empty()) {
      step(tokens_);
    }
    if (!error_.empty()) {
      return failure(error_);
    }
    return std::move(tokens_);
  }

 private:
  bool at_end() const { return at_ >= content_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < content_.size() ? content_[at_ + ahead] : '\0';
  }
  bool joins_lines() const {
    return peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'));
  }

  void fail(int line, std::string_view reason) {
    if (error_.empty()) {
      error_ = fmt::format("{}:{}: {}", file_, line, reason);
    }
  }

  void skip_to(std::size_t end) {
    end = std::min(end, content_.size());
    line_ += static_cast<int>(std::count(content_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         content_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  void step(std::vector<ShellToken>& into) {
    if (joins_lines()) {
      skip_to(at_ + (peek(1) == '\n' ? 2 : 3));
    } else if (is_blank(peek())) {
      skip_to(at_ + 1);
    } else if (peek() == '#') {
      skip_to(content_.find('\n', at_));
    } else if (peek() == '<' || peek() == '>' || (peek() == '&' && peek(1) == '>')) {
      skip_redirection();
    } else if (is_operator(peek())) {
      take_operator(into);
    } else {
      take_word(into);
    }
  }

  void take_operator(std::vector<ShellToken>& into) {
    const int line = line_;
    if (content_.substr(at_, 2) == "((") {
      const std::size_t end = end_of_bracket(content_, at_, ')', 0);
      add(into, {ShellToken::Kind::word, std::string(content_.substr(at_, end - at_)), line});
      skip_to(end);
      return;
    }
    std::size_t length = 1;
    if (peek() != '\n' && peek() == peek(1) &&
        std::string_view("&|;").find(peek()) != std::string_view::npos) {
      length = 2;
    }
    std::string text(content_.substr(at_, length));
    skip_to(at_ + length);
    const bool ends_line = text == "\n";
    add(into, {ShellToken::Kind::separator, std::move(text), line});
    if (ends_line) {
      skip_documents();
    }
  }

  void add(std::vector<ShellToken>& into, ShellToken token) {
    if (++count_ > k_most_tokens) {
      fail(token.line, fmt::format("more than {} words; no launch script is that long", k_most_tokens));
      return;
    }
    into.push_back(std::move(token));
  }

  /// Its target is the next word; "2>&1" has none of its own.
  void skip_redirection() {
    const bool is_document = content_.substr(at_, 2) == "<<" && peek(2) != '<';
    const bool strips_tabs = is_document && peek(2) == '-';
    while (!at_end() && std::string_view("<>&-").find(peek()) != std::string_view::npos) {
      skip_to(at_ + 1);
    }
    while (!at_end() && is_blank(peek())) {
      skip_to(at_ + 1);
    }
    if (peek() == '(') {  // <(…) and >(…)
      skip_to(end_of_bracket(content_, at_, ')', 0));
      return;
    }
    std::vector<ShellToken> target;
    if (!at_end() && !is_operator(peek())) {
      take_word(target);
    }
    if (is_document && !target.empty()) {
      std::string word = target[0].text;
      std::erase_if(word, [](char letter) { return letter == '"' || letter == '\'' || letter == '\\'; });
      documents_.push_back({std::move(word), strips_tabs, target[0].line});
    }
  }

  struct Document {
    std::string end;
    bool strips_tabs = false;
    int line = 1;
  };

  /// Here-documents begin behind the line that names them.
  void skip_documents() {
    for (const Document& document : documents_) {
      bool is_closed = false;
      while (!at_end() && !is_closed) {
        const std::size_t end = std::min(content_.find('\n', at_), content_.size());
        std::string_view text = content_.substr(at_, end - at_);
        if (document.strips_tabs) {
          text.remove_prefix(std::min(text.find_first_not_of('\t'), text.size()));
        }
        is_closed =
            text == document.end || (text.ends_with('\r') && text.substr(0, text.size() - 1) == document.end);
        skip_to(end + 1);
      }
      if (!is_closed) {
        fail(document.line, fmt::format("the text up to '{}' never ends", shown_text(document.end)));
      }
    }
    documents_.clear();
  }

  static bool starts_array(std::string_view word) {
    const std::size_t name_end = word.ends_with("+=")  ? word.size() - 2
                                 : word.ends_with('=') ? word.size() - 1
                                                       : 0;
    const auto is_name_letter = [](unsigned char letter) {
      return std::isalnum(letter) != 0 || letter == '_';
    };
    return name_end > 0 &&
           std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(name_end), is_name_letter);
  }

  void take_array(std::vector<ShellToken>& into, ShellToken token) {
    token.kind = ShellToken::Kind::array;
    skip_to(at_ + 1);
    while (!at_end() && peek() != ')' && error_.empty()) {
      if (is_operator(peek())) {
        skip_to(at_ + 1);
      } else {
        step(token.elements);
      }
    }
    if (at_end()) {
      fail(token.line, fmt::format("the array {} is never closed", shown_text(token.text)));
    }
    skip_to(at_ + 1);
    add(into, std::move(token));
  }

  void take_word(std::vector<ShellToken>& into) {
    ShellToken token{ShellToken::Kind::word, "", line_};
    while (!at_end() && !is_blank(peek()) && peek() != '<' && peek() != '>') {
      if (peek() == '(' && starts_array(token.text)) {
        take_array(into, std::move(token));
        return;
      }
      const bool is_brace = peek() == '{' || peek() == '}';  // inside a word they are letters
      if ((is_operator(peek()) && !(is_brace && !token.text.empty()))) {
        break;
      }
      if (joins_lines()) {
        skip_to(at_ + (peek(1) == '\n' ? 2 : 3));
        continue;
      }
      const std::size_t end = end_of_shell_unit(content_, at_);
      const char first = peek();
      const bool is_unit = end > at_ + 1 && first != '\\';
      if (is_unit && !is_closed(content_.substr(at_, end - at_))) {
        fail(line_, fmt::format("the {} is never closed", first == '$' ? "bracket" : "quote"));
      }
      token.text += content_.substr(at_, end - at_);
      skip_to(end);
    }
    const bool is_descriptor = !at_end() && (peek() == '<' || peek() == '>') && !token.text.empty() &&
                               std::all_of(token.text.begin(), token.text.end(),
                                           [](unsigned char letter) { return std::isdigit(letter) != 0; });
    if (!is_descriptor && !token.text.empty()) {
      add(into, std::move(token));
    }
  }

  static bool is_closed(std::string_view unit) {
    const char first = unit.front();
    const char close = first == '$' ? (unit[1] == '(' ? ')' : '}') : first;
    return unit.size() >= 2 && unit.back() == close && !(unit.size() == 2 && first == '$');
  }

  std::string file_;
  std::string_view content_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t count_ = 0;
  std::vector<Document> documents_;
  std::vector<ShellToken> tokens_;
  std::string error_;
};

}  // namespace

std::size_t end_of_shell_unit(std::string_view text, std::size_t at) { return end_of_unit(text, at, 0); }

Result<std::vector<ShellToken>> shell_tokens(std::string_view file, std::string_view content,
                                             int first_line) {
  return ShellTokenizer(file, content, first_line).all();
}

}  // namespace commlens
