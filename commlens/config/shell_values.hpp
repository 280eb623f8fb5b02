#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace commlens {

/// A word as a command of a script gets it, and the line that it was written in. It may hold marks
/// (ShellValues::unknown_in).
struct ShellWord {
  std::string text;
  int line = 1;
};

/// Something that is known only when the script runs: the output of a command, a variable that nothing in the
/// script sets.
struct ShellUnknown {
  std::string text;  // as written
  int line = 1;
  bool is_unset = false;  // a variable, which is empty unless the environment sets it
  /// Words that it may hold or may lack, where no more than that is open.
  std::vector<ShellWord> may_be;
};

/// The variables of a script. Nothing is ever executed and the environment is not looked at: what neither the
/// script nor a default decides leaves a mark in the text.
class ShellValues {
 public:
  void set(const std::string& name, ShellWord value, bool appends = false);
  void set_array(const std::string& name, std::vector<ShellWord> elements, bool appends);
  void unset(const std::string& name) { variables_.erase(name); }
  /// The variable depends on something unknown.
  void set_unknown(const std::string& name, ShellUnknown why);
  /// It may get what `may_be` holds, behind or instead of what it has.
  void set_doubtful(const std::string& name, ShellUnknown why, bool appends);

  /// The words that a word as written becomes: variables and quotes are resolved, and what is not in quotes
  /// is split at blanks.
  std::vector<ShellWord> words(std::string_view written, int line);
  /// The one text that it becomes where nothing is split, as in an assignment.
  std::string text(std::string_view written, int line);
  /// The words of a text, split at blanks.
  std::vector<ShellWord> split(std::string_view text, int line);
  /// The value of an expression; std::nullopt if it is not known.
  std::optional<std::int64_t> number(std::string_view expression, int line);

  /// What the first mark in a text stands for; null if all of it is known. `is_unset` marks are skipped if
  /// they are `ignored`.
  const ShellUnknown* unknown_in(std::string_view text, bool ignores_unset = false) const;
  /// The text with what marks stand for, as written.
  std::string as_written(std::string_view text) const;
  /// The text with nothing for variables that are not set.
  std::string without_unset(std::string_view text) const;
  /// Whether the word is nothing but marks of variables that are not set.
  bool is_unset(std::string_view text) const;

  /// More text came out of variables than out of any launch script.
  bool is_exhausted() const { return made_ > k_most_text; }
  static constexpr std::size_t k_most_text = std::size_t{4} << 20U;

 private:
  struct Variable {
    bool is_array = false;
    std::vector<ShellWord> elements;
  };
  class Fields;
  struct Parameter;

  std::string mark(ShellUnknown unknown);
  void expand(std::string_view written, int line, bool is_quoted, Fields& out, int depth);
  void expand_dollar(std::string_view unit, int line, bool is_quoted, Fields& out, int depth);
  void expand_parameter(std::string_view body, int line, bool is_quoted, Fields& out, int depth);
  void put(const Parameter& parameter, int line, bool is_quoted, Fields& out);
  void put_size(const Parameter& parameter, std::string_view whole, int line, Fields& out);
  Parameter parameter(std::string_view& body, int line);
  bool is_empty(const Parameter& parameter) const;
  std::string arithmetic(std::string_view expression, std::string_view unit, int line, int depth);
  std::optional<std::int64_t> evaluated(std::string_view expression, int line, int depth,
                                        std::string& unknown);

  std::map<std::string, Variable, std::less<>> variables_;
  std::vector<ShellUnknown> unknowns_;
  std::size_t made_ = 0;
};

}  // namespace commlens
