#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace commlens {

/// An object of a JSON document whose members are checked as they are taken. The first thing that is wrong is
/// kept in `error`; from then on every answer is a harmless default, and the caller looks at `error` before
/// it uses them.
class DocumentFields {
 public:
  /// `place`: of the object, for messages: "rows[3]"; empty at the top.
  DocumentFields(const nlohmann::json& object, std::string place, std::optional<std::string>& error);

  /// A finite number that is not negative, or any.
  double number(const char* key);
  double signed_number(const char* key);
  std::optional<double> optional_number(const char* key);
  std::int64_t whole(const char* key);
  bool flag(const char* key);
  std::string text(const char* key);
  /// Empty where it is absent or null.
  std::string optional_text(const char* key);
  /// Texts of a list.
  std::vector<std::string> texts(const char* key);
  bool has(const char* key) const;
  DocumentFields object(const char* key);
  /// The objects of a list, at most 100,000.
  std::vector<DocumentFields> objects(const char* key);

 private:
  const nlohmann::json* find(const char* key);
  std::optional<double> number_in(const char* key, double least);
  void fail(const char* key, std::string_view what);

  const nlohmann::json* object_;
  std::string place_;
  std::optional<std::string>* error_;
};

}  // namespace commlens
