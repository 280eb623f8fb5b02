#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "commlens/formats/io/call_builder.hpp"

namespace commlens::formats {

/// A field of a calls file: its name, and where its value goes.
struct CallField {
  using Number = std::optional<std::int64_t> CallRecord::*;
  using Text = std::string CallRecord::*;
  using Ranks = GroupField CallRecord::*;
  using Flag = std::optional<bool> CallRecord::*;
  /// Text, or an integer that is kept as text.
  struct Label {
    std::string CallRecord::* text;
  };
  /// A word of a fixed vocabulary.
  struct Vocabulary {
    void (*set)(CallRecord& record, std::string_view text);
    std::string_view (*text)(const CallRecord& record);
  };
  std::string_view key;
  std::variant<Number, Text, Ranks, Flag, Label, Vocabulary> member;

  /// Puts the text into a field that takes text; false where the field takes none.
  bool set_text(CallRecord& record, std::string_view text) const;
  /// The text of a field that takes text; empty of others.
  std::string_view text_in(const CallRecord& record) const;
};

/// Every field that calls JSON Lines and calls CSV share, at most 32.
std::span<const CallField> call_fields();

/// What a value of the field must be, for messages: "an integer below 2^63", …
std::string_view expected_value(const CallField& field);

}  // namespace commlens::formats
