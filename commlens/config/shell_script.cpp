#include "commlens/config/shell_script.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/shell_blocks.hpp"
#include "commlens/config/shell_conditions.hpp"
#include "commlens/config/shell_tokens.hpp"
#include "commlens/config/tree.hpp"

namespace commlens {
namespace {

using Tokens = ShellTokens;

constexpr int k_deepest_call = 8;
constexpr int k_deepest_block = 40;
constexpr std::size_t k_most_steps = 100'000;
constexpr std::size_t k_most_commands = 10'000;

/// Why something is not known: a condition and where it stands.
struct Cause {
  std::string text;
  int line = 0;
};

class ShellRunner {
 public:
  explicit ShellRunner(std::string_view file) : file_(file) {}

  Result<void> run(std::string_view content, int line) {
    Result<std::vector<ShellToken>> tokens = shell_tokens(file_, content, line);
    if (!tokens) {
      return tl::unexpected(tokens.error());
    }
    texts_.push_back(std::move(*tokens));
    run(Tokens(texts_.back()), 0);
    if (error_.empty() && script_.values.is_exhausted()) {
      error_ = fmt::format("{}: its variables hold more than {} MiB of text; no launch script needs that",
                           file_, ShellValues::k_most_text >> 20U);
    }
    return error_.empty() ? Result<void>{} : failure(error_);
  }

  ShellScript take() { return std::move(script_); }

 private:
  bool is_stopped() const { return !error_.empty() || script_.values.is_exhausted(); }

  bool takes_step(int line) {
    if (++steps_ > k_most_steps && error_.empty()) {
      error_ = fmt::format("{}:{}: more than {} steps; no launch script takes that many", file_, line,
                           k_most_steps);
    }
    return !is_stopped();
  }

  /// All commands of a list. A command whose end is not looked at is taken to succeed.
  void run(Tokens tokens, int depth) {
    std::size_t at = 0;
    ShellTruth status = ShellTruth::yes;
    Cause cause;
    while (at < tokens.size() && takes_step(tokens[at].line)) {
      const ShellToken& token = tokens[at];
      const bool is_joint = token.text == "&&" || token.text == "||";
      if (is_shell_separator(token) && !is_joint) {
        status = ShellTruth::yes;
        ++at;
        continue;
      }
      if (is_shell_separator(token)) {
        at = past_joint(tokens, at, status, cause);
        continue;
      }
      const std::size_t end = end_of_shell_statement(tokens, at);
      status = statement(tokens.subspan(at, end - at), depth);
      cause = {written_shell(tokens.subspan(at, end - at)), token.line};
      at = end;
    }
  }

  /// Behind && or || at `at`: where the next statement to run begins. `status` is that of the last one, which
  /// `cause` describes.
  std::size_t past_joint(Tokens tokens, std::size_t at, ShellTruth status, const Cause& cause) {
    const ShellTruth wanted = tokens[at].text == "&&" ? ShellTruth::yes : ShellTruth::no;
    while (at < tokens.size() && is_shell_separator(tokens[at])) {
      ++at;
    }
    if (status == wanted || at == tokens.size()) {
      return at;
    }
    const std::size_t end = end_of_shell_statement(tokens, at);
    if (status == ShellTruth::unknown) {
      doubt(tokens.subspan(at, end - at), cause);
    }
    return end;
  }

  ShellTruth statement(Tokens tokens, int depth) {
    const std::string& first = tokens[0].text;
    const bool is_block = tokens[0].kind == ShellToken::Kind::word && depth < k_deepest_block;
    if (is_block && first == "if") {
      run_if(tokens, depth);
    } else if (is_block && first == "case") {
      run_case(tokens, depth);
    } else if (is_block && is_one_of(first, "for while until select")) {
      run_loop(tokens, depth);
    } else if (defines_shell_function(tokens, 0)) {
      const std::string& name = first == "function" && tokens.size() > 1 ? tokens[1].text : first;
      const auto body = std::find_if(tokens.begin(), tokens.end(), [](const ShellToken& token) {
        return is_shell_separator(token) && token.text == "{";
      });
      functions_[name] = tokens.subspan(static_cast<std::size_t>(body - tokens.begin()));
    } else if (first == "[" || first == "[[" || first == "test" || first == "!" || first.starts_with("((") ||
               first == "false") {
      forget_counted(tokens);
      return shell_truth(tokens, script_.values);
    } else {
      command(tokens, depth, {});
    }
    return ShellTruth::yes;
  }

  void run_if(Tokens tokens, int depth) {
    const std::size_t end = end_of_shell_block(tokens, 0);
    std::size_t at = 1;
    Cause doubtful;
    while (at < end) {
      const std::size_t then = next_shell_keyword(tokens, at, end, "then");
      const Tokens condition = tokens.subspan(at, then - at);
      const std::size_t next = next_shell_keyword(tokens, std::min(then + 1, end), end, "elif else");
      const std::size_t from = std::min(then + 1, end);
      const ShellTruth truth = shell_truth(condition, script_.values);
      if (truth == ShellTruth::unknown && doubtful.line == 0) {
        doubtful = {written_shell(condition), tokens[at].line};
      }
      branch(tokens.subspan(from, next - from), truth, doubtful, depth);
      const bool has_else = next < end && is_shell_word(tokens[next], "else");
      if (truth == ShellTruth::yes || next >= end) {
        return;
      }
      if (has_else) {
        branch(tokens.subspan(next + 1, end - next - 1), ShellTruth::yes, doubtful, depth);
        return;
      }
      at = next + 1;
    }
  }

  void branch(Tokens tokens, ShellTruth truth, const Cause& doubtful, int depth) {
    if (truth == ShellTruth::no) {
      return;
    }
    if (doubtful.line > 0) {
      doubt(tokens, doubtful);
    } else {
      run(tokens, depth + 1);
    }
  }

  void run_case(Tokens tokens, int depth) {
    const std::size_t end = end_of_shell_block(tokens, 0);
    if (end < 3) {
      return;
    }
    const std::string subject = script_.values.text(tokens[1].text, tokens[1].line);
    const bool is_known = script_.values.unknown_in(subject, true) == nullptr;
    const std::string plain = script_.values.without_unset(subject);
    Cause doubtful{is_known ? "" : script_.values.as_written(subject), is_known ? 0 : tokens[0].line};
    std::size_t at = 3;
    while (at < end && !is_stopped()) {
      ShellTruth truth = is_known ? ShellTruth::no : ShellTruth::unknown;
      while (at < end && tokens[at].text != ")") {
        if (!is_shell_separator(tokens[at]) && is_known && truth != ShellTruth::yes) {
          truth = shell_match(plain, tokens[at], script_.values);
        }
        ++at;
      }
      std::size_t last = at;
      while (last < end && tokens[last].text != ";;") {
        const bool opens = opens_shell_block(tokens, last);
        last = opens ? std::min(end_of_shell_block(tokens, last) + 1, end) : last + 1;
      }
      if (truth == ShellTruth::unknown && doubtful.line == 0) {
        doubtful = {plain, tokens[0].line};
      }
      const std::size_t from = std::min(at + 1, last);
      branch(tokens.subspan(from, last - from), truth, doubtful, depth);
      if (truth == ShellTruth::yes && doubtful.line == 0) {
        return;
      }
      at = last + 1;
    }
  }

  void run_loop(Tokens tokens, int depth) {
    const std::size_t end = end_of_shell_block(tokens, 0);
    const std::size_t begin = next_shell_keyword(tokens, 1, end, "do");
    const Tokens body = tokens.subspan(std::min(begin + 1, end), end - std::min(begin + 1, end));
    const Cause cause{written_shell(tokens.subspan(0, begin)), tokens[0].line};
    const std::string& kind = tokens[0].text;
    if (kind == "while" || kind == "until") {
      const ShellTruth truth = shell_truth(tokens.subspan(1, begin - 1), script_.values);
      if (truth != (kind == "while" ? ShellTruth::no : ShellTruth::yes)) {
        doubt(body, cause);
      }
      return;
    }
    std::vector<ShellWord> words;
    bool is_known = kind == "for" && tokens.size() > 2 && is_shell_word(tokens[2], "in");
    for (std::size_t at = 3; at < begin && is_known && !is_shell_separator(tokens[at]); ++at) {
      for (ShellWord& word : script_.values.words(tokens[at].text, tokens[at].line)) {
        is_known = is_known && script_.values.unknown_in(word.text) == nullptr &&
                   word.text.find_first_of("*?{") == std::string::npos;
        words.push_back(std::move(word));
      }
    }
    if (!is_known) {
      if (tokens.size() > 1) {
        script_.values.set_unknown(tokens[1].text, {cause.text, cause.line});
      }
      doubt(body, cause);
      return;
    }
    for (const ShellWord& word : words) {
      script_.values.set(tokens[1].text, word);
      run(body, depth + 1);
      if (is_stopped()) {
        return;
      }
    }
  }

  /// Commands that may or may not run: what they assign is no longer known.
  void doubt(Tokens tokens, const Cause& cause) {
    std::size_t at = 0;
    while (at < tokens.size() && takes_step(tokens[at].line)) {
      if (is_shell_separator(tokens[at]) || comes_before_command(tokens[at])) {
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < tokens.size() && !is_shell_separator(tokens[end])) {
        ++end;
      }
      command(tokens.subspan(at, end - at), 0, cause);
      at = end;
    }
  }

  void assign(const ShellToken& token, std::string_view name, const Cause& cause) {
    const bool appends = name.ends_with('+');
    const std::string plain(name.substr(0, name.find_first_of("+[")));
    const bool is_element = name.find('[') != std::string_view::npos;
    if (is_element) {
      script_.values.set_unknown(plain, {token.text, token.line});
      return;
    }
    const std::string_view value = std::string_view(token.text).substr(name.size() + 1);
    if (cause.line > 0) {
      assign_in_doubt(token, plain, appends, cause);
    } else if (token.kind == ShellToken::Kind::array) {
      script_.values.set_array(plain, element_words(token), appends);
    } else {
      script_.values.set(plain, {script_.values.text(value, token.line), token.line}, appends);
    }
  }

  std::vector<ShellWord> element_words(const ShellToken& array) {
    std::vector<ShellWord> words;
    for (const ShellToken& element : array.elements) {
      for (ShellWord& word : script_.values.words(element.text, element.line)) {
        words.push_back(std::move(word));
      }
    }
    return words;
  }

  void assign_in_doubt(const ShellToken& token, const std::string& name, bool appends, const Cause& cause) {
    ShellValues& values = script_.values;
    const std::string_view value = std::string_view(token.text).substr(name.size() + (appends ? 2 : 1));
    ShellUnknown unknown{cause.text, cause.line};
    if (token.kind == ShellToken::Kind::array) {
      unknown.may_be = element_words(token);
    } else {
      const std::string text = values.text(value, token.line);
      for (ShellWord& word : values.split(text, token.line)) {
        unknown.may_be.push_back(std::move(word));
      }
    }
    values.set_doubtful(name, std::move(unknown), appends);
  }

  void command(Tokens tokens, int depth, const Cause& cause) {
    std::size_t at = 0;
    const auto take_assignment = [&](const ShellToken& token) {
      const std::string_view name = assigned_shell_name(token.text);
      if (!name.empty()) {
        assign(token, name, cause);
      }
      return !name.empty();
    };
    while (at < tokens.size() && take_assignment(tokens[at])) {
      ++at;
    }
    if (at == tokens.size()) {
      return;
    }
    const std::string& name = tokens[at].text;
    if (is_one_of(name, "export declare local readonly typeset")) {
      for (++at; at < tokens.size(); ++at) {
        take_assignment(tokens[at]);
      }
      return;
    }
    ShellCommand made{{}, tokens[at].line, outer_, cause.text, cause.line};
    for (const ShellToken& token : tokens.subspan(at)) {
      for (ShellWord& word : script_.values.words(token.text, token.line)) {
        made.words.push_back(std::move(word));
      }
    }
    if (!made.words.empty()) {
      finish(std::move(made), depth);
    }
  }

  void finish(ShellCommand made, int depth) {
    const std::string name = made.words[0].text;
    if (is_one_of(name, "read mapfile readarray unset let")) {
      for (std::size_t at = 1; at < made.words.size(); ++at) {
        const std::string plain = made.words[at].text.substr(0, made.words[at].text.find_first_of("=+-*/["));
        if (!plain.empty()) {
          name == "unset" ? script_.values.unset(plain)
                          : script_.values.set_unknown(plain, {name, made.line});
        }
      }
      return;
    }
    if (name == "eval") {
      follow(made, 1, depth);
    }
    if (const auto function = functions_.find(name); function != functions_.end() && made.only_if_line == 0) {
      call(function->second, made);
    }
    constexpr std::string_view wrapped = "--wrap=";  // of sbatch
    for (const ShellWord& word : made.words) {
      if (word.text.starts_with(wrapped)) {
        follow(
            {{{word.text.substr(wrapped.size()), word.line}}, made.line, {}, made.only_if, made.only_if_line},
            0, depth);
      }
    }
    for (std::size_t at = 0; at + 2 < made.words.size(); ++at) {
      const std::string& word = made.words[at].text;
      const std::string& option = made.words[at + 1].text;
      const bool is_shell =
          word == "sh" || word == "bash" || word.ends_with("/sh") || word.ends_with("/bash");
      if (is_shell && option.size() > 1 && option[0] == '-' && option[1] != '-' && option.ends_with('c')) {
        const std::vector<ShellWord> outside = outer_;
        outer_.insert(outer_.end(), made.words.begin(), made.words.begin() + static_cast<std::ptrdiff_t>(at));
        follow({{made.words[at + 2]}, made.line, {}, made.only_if, made.only_if_line}, 0, depth);
        outer_ = outside;
      }
    }
    if (script_.commands.size() < k_most_commands) {
      script_.commands.push_back(std::move(made));
    }
  }

  /// A text that a shell runs as commands.
  void follow(const ShellCommand& made, std::size_t first, int depth) {
    if (++calls_ > k_deepest_call) {
      --calls_;
      return;
    }
    std::string text;
    for (std::size_t at = first; at < made.words.size(); ++at) {
      text += (text.empty() ? "" : " ") + made.words[at].text;
    }
    Result<std::vector<ShellToken>> tokens =
        shell_tokens(file_, text, made.words[std::min(first, made.words.size() - 1)].line);
    if (!tokens && error_.empty()) {
      error_ = tokens.error().message;
    }
    if (tokens) {
      texts_.push_back(std::move(*tokens));
      if (made.only_if_line > 0) {
        doubt(texts_.back(), {made.only_if, made.only_if_line});
      } else {
        run(Tokens(texts_.back()), depth + 1);
      }
    }
    --calls_;
  }

  void call(Tokens body, const ShellCommand& made) {
    if (++calls_ <= k_deepest_call) {
      std::vector<ShellWord> arguments(made.words.begin() + 1, made.words.end());
      for (std::size_t at = 0; at < 9; ++at) {
        const std::string position(1, static_cast<char>('1' + at));
        at < arguments.size() ? script_.values.set(position, arguments[at]) : script_.values.unset(position);
      }
      script_.values.set_array("@", std::move(arguments), false);
      run(body, 1);
      script_.values.unset("@");
      for (char position = '1'; position <= '9'; ++position) {
        script_.values.unset(std::string(1, position));
      }
    }
    --calls_;
  }

  /// ((N = 3)) and ((N++)): what they set is not followed.
  void forget_counted(Tokens tokens) {
    const std::string& text = tokens[0].text;
    if (!text.starts_with("((")) {
      return;
    }
    std::size_t at = 2;
    while (at < text.size()) {
      const std::size_t end = std::min(
          text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at),
          text.size());
      const std::size_t sign = std::min(text.find_first_not_of(' ', end), text.size());
      const std::string_view rest = std::string_view(text).substr(sign, 2);
      const bool sets = (rest.starts_with('=') && rest != "==") || rest == "+=" || rest == "-=" ||
                        rest == "*=" || rest == "/=" || rest == "++" || rest == "--";
      if (end > at && sets) {
        script_.values.set_unknown(text.substr(at, end - at), {text, tokens[0].line});
      }
      at = std::max(end, at + 1);
    }
  }

  std::string file_;
  std::deque<std::vector<ShellToken>> texts_;
  std::map<std::string, Tokens, std::less<>> functions_;
  ShellScript script_;
  std::vector<ShellWord> outer_;
  std::size_t steps_ = 0;
  int calls_ = 0;
  std::string error_;
};

}  // namespace

Result<ShellScript> read_shell_script(std::string_view file, std::string_view content) {
  if (const Result<void> text = check_is_text(file, content); !text) {
    return tl::unexpected(text.error());
  }
  ShellRunner runner(file);
  if (const Result<void> ok = runner.run(content, 1); !ok) {
    return tl::unexpected(ok.error());
  }
  return runner.take();
}

}  // namespace commlens
