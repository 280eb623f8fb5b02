#pragma once
#include <any>
#include <vector>

namespace commlens {

/// The settings that only one framework has, by their type, for every framework that a job has settings of: a
/// job of a client library carries those of the library that trains it too.
class OptionSet {
 public:
  /// The options of that type; their defaults if none were set.
  template <typename Options>
  const Options& of() const {
    for (const std::any& one : all_) {
      if (const Options* options = std::any_cast<Options>(&one)) {
        return *options;
      }
    }
    static const Options defaults{};
    return defaults;
  }

  /// The same to be changed.
  template <typename Options>
  Options& edit() {
    for (std::any& one : all_) {
      if (Options* options = std::any_cast<Options>(&one)) {
        return *options;
      }
    }
    return *std::any_cast<Options>(&all_.emplace_back(Options{}));
  }

 private:
  std::vector<std::any> all_;  // one of each type, a few in all
};

}  // namespace commlens
