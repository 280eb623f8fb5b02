#include "commlens/report/table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/report/wrapped.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_gap = 2;  // between columns

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string padded(std::string_view cell, std::size_t width, Column::Align align) {
  const std::string text = cut_to(cell, width);
  const std::string space(width - std::min(width, display_width(text)), ' ');
  return align == Column::Align::right ? space + text : text + space;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (const std::size_t width : widths) {
    sum += width == 0 ? 0 : width + k_gap;
  }
  return sum == 0 ? 0 : sum - k_gap;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t at = 0; at < cells.size(); ++at) {
    if (widths[at] > 0) {
      line +=
          (line.empty() ? "" : std::string(k_gap, ' ')) + padded(cells[at], widths[at], columns[at].align);
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string printable(std::string text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0;
    if (byte < 0x20 || byte == 0x7F) {
      text[at] = '?';
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      text.replace(at, 2, "?");
    }
  }
  return text;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  bool in_colour = false;  // "\033[1m" takes no room
  for (const char c : text) {
    in_colour = in_colour || c == '\033';
    width += in_colour || is_continuation(c) ? 0 : 1;
    in_colour = in_colour && c != 'm';
  }
  return width;
}

std::string cut_to(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) {
    return std::string(text);
  }
  if (width == 0) {
    return "";
  }
  std::size_t end = 0;
  for (std::size_t shown = 0; shown + 1 < width; ++shown) {
    ++end;
    while (end < text.size() && is_continuation(text[end])) {
      ++end;
    }
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string in_colour(std::string_view text, Colour colour, const TextStyle& style) {
  if (!style.colour) {
    return std::string(text);
  }
  const int code = colour == Colour::bold    ? 1
                   : colour == Colour::red   ? 31
                   : colour == Colour::green ? 32
                                             : 33;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

void Table::add(std::vector<std::string> cells) {
  COMMLENS_CHECK(cells.size() == columns_.size(), "a row has a cell for every column");
  for (std::string& cell : cells) {
    cell = printable(std::move(cell));
  }
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::shown_widths(std::size_t width) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t at = 0; at < columns_.size(); ++at) {
    for (const std::vector<std::string>& row : rows_) {
      widths[at] = std::max(widths[at], display_width(row[at]));
    }
    if (widths[at] > 0) {
      widths[at] = std::max(widths[at], display_width(columns_[at].title));
    }
  }
  if (width == 0) {
    return widths;
  }
  const auto smallest = [&] {  // with every column that may be cut as narrow as it may be
    std::vector<std::size_t> least = widths;
    for (std::size_t at = 0; at < widths.size(); ++at) {
      least[at] = columns_[at].least == 0 ? widths[at] : std::min(widths[at], columns_[at].least);
    }
    return least;
  };
  while (total(smallest()) > width) {
    std::size_t victim = widths.size();
    for (std::size_t at = 0; at < widths.size(); ++at) {
      const bool candidate = widths[at] > 0 && columns_[at].drop_first > 0;
      if (candidate && (victim == widths.size() || columns_[at].drop_first < columns_[victim].drop_first)) {
        victim = at;
      }
    }
    if (victim == widths.size()) {
      break;
    }
    widths[victim] = 0;
  }
  for (std::size_t at = widths.size(); at-- > 0;) {
    const std::size_t over = total(widths) > width ? total(widths) - width : 0;
    if (over > 0 && columns_[at].least > 0 && widths[at] > columns_[at].least) {
      widths[at] -= std::min(over, widths[at] - columns_[at].least);
    }
  }
  return widths;
}

std::size_t Table::room(const TextStyle& style, std::size_t indent) {
  return style.width > indent ? style.width - indent : style.width;
}

std::vector<std::string> Table::hidden(const TextStyle& style, std::size_t indent) const {
  const std::vector<std::size_t> all = shown_widths(0);
  const std::vector<std::size_t> shown = shown_widths(room(style, indent));
  std::vector<std::string> titles;
  for (std::size_t at = 0; at < columns_.size(); ++at) {
    if (all[at] > 0 && shown[at] == 0) {
      titles.push_back(columns_[at].title);
    }
  }
  return titles;
}

std::string Table::hidden_text(const std::vector<std::string>& titles, const TextStyle& style,
                               std::string_view format) {
  if (titles.empty()) {
    return "";
  }
  return wrapped(fmt::format("hidden for want of width: {} (see --format {} or a wider terminal)\n",
                             fmt::join(titles, ", "), format),
                 style);
}

std::string Table::text(const TextStyle& style, std::size_t indent) const {
  const std::vector<std::size_t> widths = shown_widths(room(style, indent));
  const std::string margin(indent, ' ');
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
  }
  std::string text = margin + in_colour(line_of(titles, widths, columns_), Colour::bold, style) + "\n";
  for (const std::vector<std::string>& row : rows_) {
    text += margin + line_of(row, widths, columns_) + "\n";
  }
  return text;
}

}  // namespace commlens
