#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace commlens {

/// An option or positional argument of a verb, as completion and manual pages need it.
struct OptionHelp {
  enum class Completes : std::uint8_t { nothing, words, file, directory };

  std::vector<std::string> names;  // "-o", "--output"; of a positional argument: "TRACE"
  std::string value;               // "FILE"; empty: it has none
  std::string help;
  std::string usual;  // the value where none is given; empty: there is none
  std::string group;  // the heading that it is under
  bool is_positional = false;
  bool is_required = false;
  bool is_repeated = false;  // may be given several times
  Completes completes = Completes::nothing;
  std::vector<std::string> words;  // completions of the value
};

/// A verb of the program.
struct VerbHelp {
  std::string name;
  std::string description;
  std::string notes;  // examples and exit codes; may be empty
  std::vector<OptionHelp> options;
};

}  // namespace commlens
