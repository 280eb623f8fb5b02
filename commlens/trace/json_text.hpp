#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace commlens {

/// Appends `text` as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// Appends a decimal number.
void append_number(std::string& out, std::int64_t value);

/// Bytes of the UTF-8 sequence at the front of `text`: 1 to 4, or 0 when it is malformed (overlong forms,
/// surrogates and values beyond U+10FFFF included) or `text` is empty.
std::size_t utf8_length(std::string_view text);

/// `text` with each malformed byte replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace commlens
