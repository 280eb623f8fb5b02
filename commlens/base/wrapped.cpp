#include "commlens/base/wrapped.hpp"

#include <algorithm>

namespace commlens {
namespace {

std::string wrapped_line(std::string_view line, std::size_t width) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string margin(indent + 2, ' ');
  std::string text(line.substr(0, indent));
  std::size_t column = indent;
  bool at_start = true;  // of a line on the terminal
  for (std::size_t from = indent; from < line.size();) {
    const std::size_t end = std::min(line.find(' ', from), line.size());
    const std::string_view word = line.substr(from, end - from);
    const std::size_t needed = display_width(word) + (at_start ? 0 : 1);
    if (!at_start && column + needed > width) {
      text += "\n" + margin;
      column = margin.size();
      at_start = true;
    }
    text += at_start ? "" : " ";
    text += word;
    column += display_width(word) + (at_start ? 0 : 1);
    at_start = false;
    from = end + 1;
  }
  return text;
}

}  // namespace

std::string wrapped(std::string_view text, const TextStyle& style) {
  if (style.width == 0) {
    return std::string(text);
  }
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    result += display_width(line) > style.width ? wrapped_line(line, style.width) : std::string(line);
    result += end < text.size() ? "\n" : "";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace commlens
