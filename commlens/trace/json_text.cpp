#include "commlens/trace/json_text.hpp"

#include <algorithm>
#include <charconv>

namespace commlens {
namespace {

constexpr std::string_view k_replacement = "\xef\xbf\xbd";

bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

void append_escaped(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4];
      out += digits[static_cast<unsigned char>(c) & 15];
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto plain =
        static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) {
      break;
    }
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += k_replacement;
    } else if (length == 1) {
      append_escaped(out, text.front());
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

void append_number(std::string& out, std::int64_t value) {
  char digits[24];
  char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) {
    return 0;
  }
  // The second byte's range closes out overlong forms, surrogates and values beyond U+10FFFF (Unicode 15,
  // table 3-7).
  const unsigned char lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) {
    return 0;
  }
  for (std::size_t index = 2; index < length; ++index) {
    if ((byte(index) & 0xc0) != 0x80) {
      return 0;
    }
  }
  return length;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    out += length == 0 ? k_replacement : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace commlens
