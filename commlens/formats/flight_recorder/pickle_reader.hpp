#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "commlens/base/result.hpp"

namespace commlens::formats::flight_recorder {

/// Limits on what a pickle may hold; more is an error.
struct PickleLimits {
  std::size_t values = std::size_t{1} << 23;
  std::size_t json_size = std::size_t{1} << 27;  // bytes of what is handed out as JSON, about
};

/// Reads Python's pickles of protocols 0 to 5 that hold data only: dict, list, tuple, str, bytes, int, float,
/// bool and None. Nothing is executed: an opcode that would name or call something, or build an object, is an
/// error. A value that several others hold is stored once, and one may hold itself.
/// Source: CPython Lib/pickletools.py.
class PickleReader {
 public:
  using Id = std::uint32_t;

  /// `bytes` must outlive the reader.
  explicit PickleReader(std::string_view bytes, PickleLimits limits = {}) : bytes_(bytes), limits_(limits) {}

  /// Reads up to the opcode STOP. The error names the opcode and its byte.
  Result<Id> read();

  /// The values of a dict's keys that are these strings; nothing for one that is not there, or where `dict`
  /// is no dict. What is looked at counts as handed out, for a dict may be in a list any number of times.
  Result<std::vector<std::optional<Id>>> find(Id dict, std::span<const std::string_view> keys);
  /// The elements of a list or tuple; none of anything else.
  const std::vector<Id>& elements(Id list) const;
  /// A value with all in it. Keys become strings, tuples arrays. Deeper than 16 is null. Fails beyond the
  /// limit on what is handed out.
  Result<nlohmann::json> json(Id value);

 private:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, tuple, dict, other };
  struct Value {
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // or boolean
    double real = 0;
    std::string_view text;
    std::vector<Id> items;  // of a dict: key, value, key, …
  };

  Result<bool> step();
  Result<bool> step_number(unsigned char opcode);
  Result<bool> step_text(unsigned char opcode);
  Result<bool> step_container(unsigned char opcode);
  Result<bool> step_memo(unsigned char opcode);
  Result<void> push(Value value);
  Result<void> push_text(std::string_view text);
  Result<void> push_decoded(std::string text);
  Result<void> gather(Kind kind, std::size_t count);
  Result<void> append(Kind kind, std::size_t count);
  Result<std::size_t> above_mark();
  Result<std::uint64_t> little_endian(std::size_t size);
  Result<std::string_view> take(std::size_t size);
  Result<std::string_view> take_line();
  tl::unexpected<Error> wrong(std::string_view what) const;
  tl::unexpected<Error> beyond_limit() const;
  bool fill_json(Id value, int depth, nlohmann::json& json);

  std::string_view bytes_;
  PickleLimits limits_;
  std::size_t at_ = 0;      // the next byte
  std::size_t opcode_ = 0;  // where the opcode at hand is
  std::vector<Value> values_;
  std::vector<std::unique_ptr<std::string>> decoded_;  // texts that are not in the file as such
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::unordered_map<std::uint64_t, Id> memo_;
  std::size_t handed_out_ = 0;
};

}  // namespace commlens::formats::flight_recorder
