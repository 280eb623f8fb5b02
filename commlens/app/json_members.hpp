#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace commlens {

/// The members of an object in a file of results. What is not as it must be is noted, the first time for all
/// that share `wrong`, as "launch 2, row 1: samples is no whole number from 1 on"; a value that can be used
/// stands in for it.
class JsonMembers {
 public:
  /// `where`: what the object is called; empty: the whole file. All three outlive it but `where`.
  JsonMembers(const nlohmann::json& object, std::string where, std::string& wrong);

  /// Printable and not empty.
  std::string word(const char* key);
  /// Any text.
  std::string name(const char* key);
  std::int64_t count(const char* key, std::int64_t least);
  /// Nanoseconds since 1970.
  std::int64_t unix_time(const char* key);
  std::uint64_t seed(const char* key);
  bool boolean(const char* key);
  /// A list, empty where it is none.
  const nlohmann::json& list(const char* key);
  /// A time in nanoseconds that is not null, above 0, as seconds.
  double seconds(const char* key);
  /// A time in nanoseconds, or a difference of times, as seconds; absent where it is null.
  std::optional<double> optional_seconds(const char* key);
  /// A time in seconds, above 0.
  double time_s(const char* key);
  bool is_null(const char* key) const { return at(key).is_null(); }
  void note(const std::string& what);

 private:
  /// Null where there is none.
  const nlohmann::json& at(const char* key) const;
  void note_at(const char* key, const std::string& what);
  template <typename Value>
  Value noted(const char* key, const std::string& what, Value value) {
    note_at(key, what);
    return value;
  }

  const nlohmann::json& object_;
  std::string where_;
  std::string& wrong_;
};

}  // namespace commlens
