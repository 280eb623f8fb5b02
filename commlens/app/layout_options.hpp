#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {

struct FrameworkRules;

/// A setting of layout, batch or model that every verb with a configuration takes, with its name and help
/// text on the command line.
struct LayoutOption {
  const char* name;   // "--tp"
  const char* value;  // what its value is, "N"; empty: it has none
  const char* help;
  Result<void> (*set)(Overrides&, std::string_view value);
  bool FrameworkRules::* is_covered =
      nullptr;  // by which rule sets; null: by all, or by some at some versions
};

/// Its help, with the rule sets that have it where that is not all of them.
std::string help_of(const LayoutOption& option);

/// All of them, in the order of the help text.
std::span<const LayoutOption> layout_options();

/// The given options: name to value. A comma list sweeps over its values.
using LayoutValues = std::map<std::string, std::string>;

/// "a,b" as its values; an empty text is one empty value.
std::vector<std::string> comma_list(std::string_view text);

/// One combination of the values in comma lists: its overrides, and the varying options with their values.
struct Combination {
  Overrides overrides;
  std::vector<std::pair<std::string, std::string>> swept;  // {"--seq", "1024"}
};

/// Every combination, in the order of the options, the last one fastest. Fails on an invalid value and on too
/// many combinations.
Result<std::vector<Combination>> combinations_of(const LayoutValues& given);

/// The same without a sweep: one combination; a comma list is refused.
Result<Overrides> overrides_of(const LayoutValues& given);

}  // namespace commlens
