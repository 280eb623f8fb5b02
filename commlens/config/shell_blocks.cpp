#include "commlens/config/shell_blocks.hpp"

#include <algorithm>
#include <cctype>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_opening_words = "if case for while until select";
constexpr std::string_view k_closing_words = "fi esac done";
constexpr std::size_t k_longest_written = 60;

bool begins_command(ShellTokens tokens, std::size_t at) {
  return tokens[at].kind == ShellToken::Kind::word && (at == 0 || comes_before_command(tokens[at - 1]));
}

std::size_t end_of_function(ShellTokens tokens, std::size_t at) {
  int open = 0;
  for (; at < tokens.size(); ++at) {
    const bool is_bracket = is_shell_separator(tokens[at]);
    open += is_bracket && tokens[at].text == "{" ? 1 : 0;
    if (is_bracket && tokens[at].text == "}" && --open <= 0) {
      return at + 1;
    }
  }
  return at;
}

}  // namespace

bool is_shell_separator(const ShellToken& token) { return token.kind == ShellToken::Kind::separator; }

bool is_shell_word(const ShellToken& token, std::string_view text) {
  return token.kind == ShellToken::Kind::word && token.text == text;
}

bool comes_before_command(const ShellToken& token) {
  return is_shell_separator(token) || (token.kind == ShellToken::Kind::word &&
                                       is_one_of(token.text, "if then elif else do while until ! time"));
}

bool opens_shell_block(ShellTokens tokens, std::size_t at) {
  return begins_command(tokens, at) && is_one_of(tokens[at].text, k_opening_words);
}

std::size_t end_of_shell_block(ShellTokens tokens, std::size_t at) {
  int open = 0;
  for (; at < tokens.size(); ++at) {
    if (open == 0 || opens_shell_block(tokens, at)) {
      ++open;
    } else if (begins_command(tokens, at) && is_one_of(tokens[at].text, k_closing_words) && --open == 0) {
      return at;
    }
  }
  return tokens.size();
}

std::size_t next_shell_keyword(ShellTokens tokens, std::size_t at, std::size_t end, std::string_view words) {
  while (at < end) {
    if (begins_command(tokens, at) && is_one_of(tokens[at].text, words)) {
      return at;
    }
    at = opens_shell_block(tokens, at) ? end_of_shell_block(tokens, at) + 1 : at + 1;
  }
  return end;
}

bool defines_shell_function(ShellTokens tokens, std::size_t at) {
  return is_shell_word(tokens[at], "function") ||
         (at + 2 < tokens.size() && tokens[at].kind == ShellToken::Kind::word && tokens[at + 1].text == "(" &&
          tokens[at + 2].text == ")");
}

std::size_t end_of_shell_statement(ShellTokens tokens, std::size_t at) {
  if (defines_shell_function(tokens, at)) {
    return end_of_function(tokens, at);
  }
  if (opens_shell_block(tokens, at)) {
    return std::min(end_of_shell_block(tokens, at) + 1, tokens.size());
  }
  const bool is_test = is_shell_word(tokens[at], "[[");
  std::size_t end = at;
  while (end < tokens.size() && (is_test || !is_shell_separator(tokens[end]))) {
    if (is_test && is_shell_word(tokens[end], "]]")) {
      return end + 1;
    }
    ++end;
  }
  return end;
}

std::string_view assigned_shell_name(std::string_view word) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  if (equals == word.size() || name.empty() || letters.find(name[0]) == std::string_view::npos ||
      std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    return "";
  }
  const std::size_t end = std::min(name.find_first_not_of(letters), name.size());
  const std::string_view rest = name.substr(end);
  const bool is_element = rest.starts_with('[') && rest.find(']') != std::string_view::npos;
  return rest.empty() || rest == "+" || is_element ? name : std::string_view();
}

std::string written_shell(ShellTokens tokens) {
  std::string text;
  for (const ShellToken& token : tokens) {
    if (text.size() > k_longest_written) {
      break;
    }
    if (token.text != "\n" && token.text != ";") {
      text += (text.empty() ? "" : " ") + token.text.substr(0, k_longest_written);
    }
  }
  return shown_text(text, k_longest_written);
}

}  // namespace commlens
