#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// "a,b" as its values; an empty text is one empty value.
std::vector<std::string> comma_list(std::string_view text);

/// One combination of swept flags: what it sets, and the flags that vary with their values.
struct Combination {
  Overrides overrides;
  std::vector<std::pair<std::string, std::string>> swept;  // {"--seq", "1024"}
};

/// The layout flags that all verbs with a CONFIG share (CONTRACT §1). In predict a comma list sweeps.
class LayoutFlags {
 public:
  /// `for_predict`: sweeps, and has --iterations N (a range elsewhere) and --gpus-per-node.
  void declare(CLI::App& verb, bool for_predict);

  /// Every combination of the values given, in the order of the flags, the last flag fastest. Fails on a
  /// value that is none, and on more combinations than anyone reads.
  Result<std::vector<Combination>> combinations() const;
  /// The same for verbs that do not sweep: one combination, a comma list is refused.
  Result<Overrides> single() const;

  bool gives_world() const { return given_.contains("--ranks") || given_.contains("--dp"); }
  bool any() const { return !given_.empty(); }
  std::int64_t ranks_per_node() const { return ranks_per_node_; }

 private:
  std::map<std::string, std::string> given_;  // flag -> text
  std::int64_t ranks_per_node_ = 0;
};

}  // namespace commlens
