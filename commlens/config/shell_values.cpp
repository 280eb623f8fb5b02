#include "commlens/config/shell_values.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/config/shell_arithmetic.hpp"
#include "commlens/config/shell_tokens.hpp"

namespace commlens {
namespace {

// Around the number of an unknown; no text file holds them (check_is_text).
constexpr char k_mark_begin = '\x01';
constexpr char k_mark_end = '\x02';
constexpr int k_deepest_expansion = 40;
constexpr std::size_t k_most_elements = 10'000;

bool is_variable_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

bool splits_words(char letter) { return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r'; }

std::size_t end_of_name(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at < text.size() && is_variable_letter(text[at])) {
    const bool is_position = at == begin && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
    ++at;
    if (is_position) {
      return at;  // $12 is $1 and a 2
    }
  }
  return at;
}

/// Calls `use` with each mark's number, or with the text between marks.
template <typename UseText, typename UseMark>
void for_each_part(std::string_view text, UseText use_text, UseMark use_mark) {
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find(k_mark_begin), text.size());
    use_text(text.substr(0, begin));
    const std::size_t end = text.find(k_mark_end, begin);
    if (end == std::string_view::npos) {
      return;
    }
    const Result<std::int64_t> number = parse_integer(text.substr(begin + 1, end - begin - 1));
    if (number && *number >= 0) {
      use_mark(static_cast<std::size_t>(*number));
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace

/// The words that come out of an expansion.
class ShellValues::Fields {
 public:
  Fields(bool splits, std::size_t& made) : splits_(splits), made_(made) {}

  void add(std::string_view text, int line) {
    made_ += text.size() + 1;
    if (made_ > k_most_text) {
      return;
    }
    if (!has_word_) {
      word_ = {"", line};
      has_word_ = true;
    }
    word_.text += text;
  }
  void add_split(std::string_view text, int line) {
    if (!splits_) {
      add(text, line);
      return;
    }
    std::size_t at = 0;
    while (at < text.size()) {
      if (splits_words(text[at])) {
        end_word();
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < text.size() && !splits_words(text[end])) {
        ++end;
      }
      add(text.substr(at, end - at), line);
      at = end;
    }
  }
  void end_word() {
    if (has_word_ && splits_) {
      words_.push_back(std::move(word_));
      has_word_ = false;
    } else if (!splits_) {
      add(" ", word_.line);
    }
  }
  bool splits() const { return splits_; }

  std::vector<ShellWord> take() {
    if (has_word_) {
      words_.push_back(std::move(word_));
    }
    return std::move(words_);
  }

 private:
  bool splits_;
  std::size_t& made_;
  bool has_word_ = false;
  ShellWord word_;
  std::vector<ShellWord> words_;
};

/// What stands behind a $, and its value.
struct ShellValues::Parameter {
  std::string name;
  bool is_known = true;  // its form is understood
  bool is_set = false;
  bool takes_all = false;     // [@] or $@
  bool takes_joined = false;  // [*] or $*
  std::vector<ShellWord> elements;
};

void ShellValues::set(const std::string& name, ShellWord value, bool appends) {
  Variable& variable = variables_[name];
  if (!appends) {
    variable = {false, {std::move(value)}};
  } else if (variable.elements.empty()) {
    variable.elements.push_back(std::move(value));
  } else {
    made_ += variable.elements[0].text.size();
    variable.elements[0].text += is_exhausted() ? "" : value.text;
  }
}

void ShellValues::set_array(const std::string& name, std::vector<ShellWord> elements, bool appends) {
  Variable& variable = variables_[name];
  variable.is_array = true;
  if (!appends) {
    variable.elements.clear();
  }
  for (ShellWord& element : elements) {
    if (variable.elements.size() < k_most_elements) {
      variable.elements.push_back(std::move(element));
    } else {
      made_ = k_most_text + 1;
    }
  }
}

void ShellValues::set_unknown(const std::string& name, ShellUnknown why) {
  const int line = why.line;
  set(name, {mark(std::move(why)), line});
}

void ShellValues::set_doubtful(const std::string& name, ShellUnknown why, bool appends) {
  Variable& variable = variables_[name];
  const int line = why.line;
  if (!appends) {
    for (const ShellWord& element : variable.elements) {
      for (ShellWord& word : split(element.text, element.line)) {
        why.may_be.push_back(std::move(word));
      }
    }
    variable.elements = {{mark(std::move(why)), line}};
  } else if (variable.is_array || variable.elements.empty()) {
    variable.elements.push_back({mark(std::move(why)), line});
  } else {
    variable.elements[0].text += " " + mark(std::move(why));
  }
}

std::vector<ShellWord> ShellValues::split(std::string_view text, int line) {
  Fields fields(true, made_);
  fields.add_split(text, line);
  return fields.take();
}

std::string ShellValues::mark(ShellUnknown unknown) {
  if (unknowns_.size() >= k_most_elements) {
    made_ = k_most_text + 1;
    return "";
  }
  unknowns_.push_back(std::move(unknown));
  return fmt::format("{}{}{}", k_mark_begin, unknowns_.size() - 1, k_mark_end);
}

std::vector<ShellWord> ShellValues::words(std::string_view written, int line) {
  Fields fields(true, made_);
  expand(written, line, false, fields, 0);
  return fields.take();
}

std::string ShellValues::text(std::string_view written, int line) {
  Fields fields(false, made_);
  expand(written, line, false, fields, 0);
  std::vector<ShellWord> words = fields.take();
  return words.empty() ? "" : std::move(words[0].text);
}

std::optional<std::int64_t> ShellValues::number(std::string_view expression, int line) {
  std::string unknown;
  return evaluated(expression, line, 0, unknown);
}

const ShellUnknown* ShellValues::unknown_in(std::string_view text, bool ignores_unset) const {
  const ShellUnknown* found = nullptr;
  for_each_part(
      text, [](std::string_view) {},
      [&](std::size_t number) {
        const bool counts =
            number < unknowns_.size() && found == nullptr && !(ignores_unset && unknowns_[number].is_unset);
        found = counts ? &unknowns_[number] : found;
      });
  return found;
}

std::string ShellValues::as_written(std::string_view text) const {
  std::string result;
  for_each_part(
      text, [&](std::string_view part) { result += part; },
      [&](std::size_t number) { result += number < unknowns_.size() ? unknowns_[number].text : ""; });
  return result;
}

std::string ShellValues::without_unset(std::string_view text) const {
  std::string result;
  for_each_part(
      text, [&](std::string_view part) { result += part; },
      [&](std::size_t number) {
        const bool stays = number < unknowns_.size() && !unknowns_[number].is_unset;
        result += stays ? fmt::format("{}{}{}", k_mark_begin, number, k_mark_end) : "";
      });
  return result;
}

bool ShellValues::is_unset(std::string_view text) const {
  return !text.empty() && without_unset(text).empty();
}

void ShellValues::expand(std::string_view written, int line, bool is_quoted, Fields& out, int depth) {
  ++made_;
  if (depth > k_deepest_expansion) {
    out.add(mark({std::string(written), line}), line);
    return;
  }
  std::size_t at = 0;
  while (at < written.size() && !is_exhausted()) {
    const char letter = written[at];
    // Between quotes an apostrophe is a letter.
    const bool is_letter = is_quoted && (letter == '\'' || letter == '"');
    const std::size_t end = is_letter ? at + 1 : end_of_shell_unit(written, at);
    const std::string_view unit = written.substr(at, end - at);
    at = end;
    if (letter == '\'' && !is_quoted) {
      out.add(unit.size() < 2 ? "" : unit.substr(1, unit.size() - 2), line);
    } else if (letter == '"' && !is_quoted) {
      const std::string_view inside = unit.size() < 2 ? "" : unit.substr(1, unit.size() - 2);
      expand(inside, line, true, out, depth + 1);
      const bool may_be_none = inside.ends_with("[@]}") || inside == "$@" || inside == "${@}";
      if (!may_be_none) {
        out.add("", line);  // an empty text is a word
      }
    } else if (letter == '\\') {
      const bool is_kept = is_quoted && unit.size() > 1 &&
                           std::string_view("$`\"\\\n").find(unit[1]) == std::string_view::npos;
      const bool joins = unit == "\\\n";
      out.add(is_kept ? unit : joins || unit.size() < 2 ? "" : unit.substr(1), line);
    } else if (letter == '`') {
      out.add(mark({std::string(unit), line}), line);
    } else if (letter == '$') {
      // $NAME is longer than a unit of one letter.
      const bool is_bare = unit.size() == 1;
      const std::size_t name_end =
          is_bare ? std::max(end_of_name(written, at), std::min(at, written.size())) : at;
      const bool is_special = is_bare && name_end == at && at < written.size() &&
                              std::string_view("@*#?!$-").find(written[at]) != std::string_view::npos;
      const std::size_t last = is_special ? at + 1 : name_end;
      expand_dollar(written.substr(end - unit.size(), last - (end - unit.size())), line, is_quoted, out,
                    depth);
      at = last;
    } else if (is_quoted || !splits_words(letter) || !out.splits()) {
      out.add(is_quoted && letter == '"' ? "" : unit, line);  // quotes in a default
    } else {
      out.end_word();
    }
  }
}

void ShellValues::expand_dollar(std::string_view unit, int line, bool is_quoted, Fields& out, int depth) {
  if (unit.size() == 1) {
    out.add(unit, line);  // a $ that begins nothing
  } else if (unit.starts_with("$((") && unit.ends_with("))")) {
    out.add(arithmetic(unit.substr(3, unit.size() - 5), unit, line, depth), line);
  } else if (unit[1] == '(') {
    out.add(mark({std::string(unit), line}), line);
  } else if (unit[1] == '{') {
    expand_parameter(unit.substr(2, unit.size() - 3), line, is_quoted, out, depth);
  } else {
    expand_parameter(unit.substr(1), line, is_quoted, out, depth);
  }
}

std::string ShellValues::arithmetic(std::string_view expression, std::string_view unit, int line, int depth) {
  std::string unknown;
  const std::optional<std::int64_t> value = evaluated(expression, line, depth + 1, unknown);
  if (value) {
    return fmt::format("{}", *value);
  }
  return unknown.empty() ? mark({std::string(unit), line}) : unknown;
}

std::optional<std::int64_t> ShellValues::evaluated(std::string_view expression, int line, int depth,
                                                   std::string& unknown) {
  Fields fields(false, made_);
  expand(expression, line, true, fields, depth + 1);
  const std::vector<ShellWord> words = fields.take();
  const std::string plain = words.empty() ? "" : words[0].text;
  const auto note = [&](std::string_view text) {
    if (const ShellUnknown* const one = unknown_in(text); one != nullptr && unknown.empty()) {
      unknown = mark(*one);
    }
  };
  note(plain);
  if (!unknown.empty()) {
    return std::nullopt;
  }
  return shell_arithmetic(plain, [&](std::string_view name) -> std::optional<std::int64_t> {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.elements.empty()) {
      unknown = unknown.empty() ? mark({fmt::format("${}", name), line, true}) : unknown;
      return std::nullopt;
    }
    const std::string& value = found->second.elements[0].text;
    note(value);
    const Result<std::int64_t> number = parse_integer(value);
    return number ? std::optional(*number) : std::nullopt;
  });
}

/// Takes a name, and an index in brackets, from the front of `body`.
ShellValues::Parameter ShellValues::parameter(std::string_view& body, int line) {
  Parameter parameter;
  const std::size_t end = end_of_name(body, 0);
  const bool is_arguments = end == 0 && !body.empty() && (body[0] == '@' || body[0] == '*');
  parameter.name = is_arguments ? "@" : body.substr(0, end);
  parameter.takes_all = is_arguments && body[0] == '@';
  parameter.takes_joined = is_arguments && body[0] == '*';
  body.remove_prefix(is_arguments ? 1 : end);
  parameter.is_known = end > 0 || is_arguments;
  const auto found = variables_.find(parameter.name);
  // A script is read as if it had no arguments.
  parameter.is_set = found != variables_.end() || is_arguments;
  if (found != variables_.end()) {
    parameter.elements = found->second.elements;
    made_ += parameter.elements.size();
  }
  std::size_t first = 0;
  if (body.starts_with('[')) {
    const std::size_t close = std::min(body.find(']'), body.size());
    const std::string_view index = body.substr(1, close - 1);
    body.remove_prefix(std::min(close + 1, body.size()));
    parameter.takes_all = index == "@";
    parameter.takes_joined = index == "*";
    const std::optional<std::int64_t> number = parameter.takes_all || parameter.takes_joined
                                                   ? std::optional<std::int64_t>(0)
                                                   : this->number(index, line);
    parameter.is_known = parameter.is_known && number && *number >= 0;
    first = parameter.is_known ? static_cast<std::size_t>(*number) : 0;
  }
  if (!parameter.takes_all && !parameter.takes_joined && parameter.is_set) {
    parameter.is_set = first < parameter.elements.size();
    parameter.elements =
        parameter.is_set ? std::vector<ShellWord>{parameter.elements[first]} : std::vector<ShellWord>{};
  }
  return parameter;
}

bool ShellValues::is_empty(const Parameter& parameter) const {
  return std::all_of(parameter.elements.begin(), parameter.elements.end(),
                     [&](const ShellWord& element) { return without_unset(element.text).empty(); });
}

void ShellValues::put(const Parameter& parameter, int line, bool is_quoted, Fields& out) {
  bool is_first = true;
  const bool is_one = !parameter.takes_all && !parameter.takes_joined;
  for (const ShellWord& element : parameter.elements) {
    // A single word is known by where it is used, several by where they are written.
    const bool is_plain = is_one && std::none_of(element.text.begin(), element.text.end(), splits_words);
    const int place = is_plain ? line : element.line;
    if (!is_first && (!is_quoted || parameter.takes_all)) {
      out.end_word();
    } else if (!is_first) {
      out.add(" ", place);
    }
    is_first = false;
    if (is_quoted) {
      out.add(element.text, place);
    } else {
      out.add_split(element.text, place);
    }
  }
}

/// ${#NAME}: the letters of a text; ${#NAME[@]}: the elements.
void ShellValues::put_size(const Parameter& parameter, std::string_view whole, int line, Fields& out) {
  if (parameter.takes_all || parameter.takes_joined || parameter.elements.empty()) {
    out.add(fmt::format("{}", parameter.elements.size()), line);
  } else if (unknown_in(parameter.elements[0].text) == nullptr) {
    out.add(fmt::format("{}", parameter.elements[0].text.size()), line);
  } else {
    out.add(mark({fmt::format("${{{}}}", whole), line}), line);
  }
}

void ShellValues::expand_parameter(std::string_view body, int line, bool is_quoted, Fields& out, int depth) {
  const std::string_view whole = body;
  const auto not_understood = [&] { out.add(mark({fmt::format("${{{}}}", whole), line}), line); };
  if (body == "#") {
    const auto arguments = variables_.find("@");
    out.add(fmt::format("{}", arguments == variables_.end() ? 0 : arguments->second.elements.size()), line);
    return;
  }
  if (body.size() == 1 && std::string_view("?!$-").find(body[0]) != std::string_view::npos) {
    out.add(mark({fmt::format("${}", body), line}), line);
    return;
  }
  const bool counts = body.starts_with('#');
  body.remove_prefix(counts ? 1 : 0);
  const Parameter found = parameter(body, line);
  if (!found.is_known || (counts && !body.empty())) {
    not_understood();
    return;
  }
  if (counts) {
    put_size(found, whole, line, out);
    return;
  }
  const bool looks_at_empty = body.starts_with(':');
  std::string_view rest = body.substr(looks_at_empty ? 1 : 0);
  const char sign = rest.empty() ? '\0' : rest.front();
  const bool is_missing = !found.is_set || (looks_at_empty && is_empty(found));
  if (sign == '\0' || (sign == '?' && !is_missing)) {
    if (!looks_at_empty && !found.is_set) {
      out.add(mark({fmt::format("${}", found.name), line, true}), line);
    } else {
      put(found, line, is_quoted, out);
    }
    return;
  }
  if (std::string_view("-=+?").find(sign) == std::string_view::npos) {
    not_understood();
    return;
  }
  rest.remove_prefix(1);
  if (sign == '?') {
    out.add(mark({fmt::format("${}", found.name), line, true}), line);
  } else if (is_missing != (sign == '+')) {
    expand(rest, line, is_quoted, out, depth + 1);
    if (sign == '=') {
      Fields value(false, made_);
      expand(rest, line, true, value, depth + 1);
      const std::vector<ShellWord> words = value.take();
      set(found.name, {words.empty() ? "" : words[0].text, line});
    }
  } else if (sign != '+') {
    put(found, line, is_quoted, out);
  }
}

}  // namespace commlens
