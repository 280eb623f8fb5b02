#include "commlens/report/html_text.hpp"

#include <algorithm>

#include "commlens/base/table.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_replacement = "\xef\xbf\xbd";

/// U+2400 + c, the picture of a control character.
std::string picture_of(char c) {
  const auto code = static_cast<unsigned char>(c);
  const auto low = static_cast<char>(0x80 | (code == 0x7f ? 0x21 : code));
  return std::string("\xe2\x90") + low;
}

/// C1 controls, and what printable() replaces: characters that change the direction of what follows, or its
/// line.
bool is_deceptive(std::string_view sequence) {
  return sequence.size() > 1 && printable(std::string(sequence)) != sequence;
}

void append_character(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      out += c < 0x20 || c == 0x7f ? picture_of(c) : std::string(1, c);
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || is_deceptive(sequence)) {
      out += k_replacement;
    } else if (length == 1) {
      append_character(out, text.front());
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace commlens
