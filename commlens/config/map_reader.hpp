#pragma once
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens {

/// Whether `word` is one of `words`, which are separated by single spaces.
bool is_one_of(std::string_view word, std::string_view words);

/// Notes of a reader besides the values; both lists outlive the reader.
struct ReaderNotes {
  std::vector<std::string>& warnings;    // one line each, with file:line
  std::vector<std::string>& unmodelled;  // settings that no rule covers (Job::unmodelled)
};

/// Takes the keys of one map, each into a variable that keeps its value when the key is absent or null. The
/// first mistake is kept and everything after it is skipped, so that a reader is a plain list of keys and
/// `finish`.
class MapReader {
 public:
  /// `map` must outlive the reader; something else than a map is a mistake, an absent or null one is an empty
  /// map.
  MapReader(const ConfigNode& map, ReaderNotes notes);

  bool has(std::string_view key);
  /// The value of a key, null when absent or null.
  const ConfigNode* node(std::string_view key);
  /// The same, for keys that hold a map.
  const ConfigNode* map(std::string_view key);

  /// Integers below `least` are refused.
  void read(std::string_view key, std::int64_t& value, std::int64_t least = 1);
  void read(std::string_view key, double& value);
  void read(std::string_view key, bool& value);
  void read(std::string_view key, std::string& value);
  /// Lists of texts, and of integers of at least `least`.
  void read(std::string_view key, std::vector<std::string>& values);
  void read(std::string_view key, std::vector<std::int64_t>& values, std::int64_t least);
  /// As `read`, but the key must be there.
  void require(std::string_view key, std::int64_t& value);

  template <typename Value>
  void choose(std::string_view key, std::initializer_list<std::pair<std::string_view, Value>> choices,
              Value& value) {
    std::vector<std::string_view> names;
    for (const auto& choice : choices) {
      names.push_back(choice.first);
    }
    const std::size_t chosen = index_of_choice(key, names);
    if (chosen < choices.size()) {
      value = (choices.begin() + chosen)->second;
    }
  }

  /// Known keys that change no message, separated by spaces.
  void accept(std::string_view keys);
  /// A setting that can change messages and that no rule covers: a prediction skips it and is
  /// unverified. `name` is its name in the note, the key itself if empty.
  void skip(std::string_view key, std::string_view name = "");
  /// The same for each of these keys that is there and not switched off (`is_off`).
  void skip_unless_off(std::string_view keys);
  /// The same for a degree or a count of which one is none.
  void skip_unless_one(std::string_view key);
  /// A key that would change messages in a way that no rule covers.
  void refuse(std::string_view key, std::string_view reason);
  /// The same, when it is switched on.
  void refuse_true(std::string_view key, std::string_view reason);

  /// Keeps "file:line: 'key' reason" as the mistake.
  void fail(std::string_view key, std::string_view reason);
  void fail_at(const ConfigNode& node, std::string_view reason);
  /// Keeps the mistake of a part that was read on its own, which says where it is.
  void pass_on(const Result<void>& part);

  /// "file:line" of a key, of the map when it is absent.
  std::string where(std::string_view key) const;

  bool failed() const { return !error_.empty(); }
  /// The mistake; otherwise warns of keys that were not read, with the nearest known one. Their effect is
  /// unknown, so that they are noted as not modelled, unless they are null.
  Result<void> finish();

 private:
  /// The value of `key`; null where it is missing or, which fails, no list.
  const ConfigNode* list(std::string_view key);
  std::size_t index_of_choice(std::string_view key, std::span<const std::string_view> choices);
  template <typename Value, typename Convert>
  void convert(std::string_view key, Value& value, Convert as_value);
  void warn_of(std::size_t index);

  const ConfigNode& map_;
  ReaderNotes notes_;
  std::unordered_map<std::string, std::size_t> last_;
  std::set<std::string, std::less<>> known_;
  std::string error_;
};

}  // namespace commlens
