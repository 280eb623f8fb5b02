#include "commlens/base/table.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/csv.hpp"
#include "commlens/base/wrapped.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_gap = 2;  // between columns

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// Overloads as one function, for std::visit.
template <typename... Functions>
struct Overloads : Functions... {
  using Functions::operator()...;
};

std::string number_text(std::int64_t value, ColumnUnit unit) {
  switch (unit) {
    case ColumnUnit::bytes:
      return to_text(Bytes{value});
    case ColumnUnit::nanoseconds:
      return to_text(std::chrono::nanoseconds(value));
    case ColumnUnit::text:
    case ColumnUnit::id:
      return fmt::format("{}", value);
    default:
      return with_commas(value);
  }
}

std::string number_text(double value, ColumnUnit unit) {
  constexpr double billion = 1e9;
  constexpr double thousand = 1000;                // a count from here on is shown without fractions
  constexpr double most_exact = 9007199254740992;  // 2^53
  switch (unit) {
    case ColumnUnit::share:
      return fmt::format("{:.1f} %", 100 * value);
    case ColumnUnit::bytes_per_s:
      return to_text(BytesPerSecond{value});
    case ColumnUnit::bytes:
    case ColumnUnit::nanoseconds:
      return number_text(static_cast<std::int64_t>(std::llround(value)), unit);
    case ColumnUnit::seconds:
      return to_text(std::chrono::nanoseconds(std::llround(value * billion)));
    case ColumnUnit::count:
      if (std::fabs(value) >= thousand && std::fabs(value) < most_exact) {
        return with_commas(std::llround(value));
      }
      return fmt::format("{:.4g}", value);
    default:
      return fmt::format("{:.4g}", value);
  }
}

std::string padded(std::string_view cell, std::size_t width, bool is_right) {
  const std::string text = cut_to(cell, width);
  const std::string space(width - std::min(width, display_width(text)), ' ');
  return is_right ? space + text : text + space;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (const std::size_t width : widths) {
    sum += width == 0 ? 0 : width + k_gap;
  }
  return sum == 0 ? 0 : sum - k_gap;
}

/// Bytes of a character at the start of the text that changes the direction of what follows, or its line;
/// 0 for another one.
std::size_t turning_bytes(std::string_view text) {
  constexpr std::string_view turning[] = {"\u061C",  // Arabic letter mark
                                          "\u200E", "\u200F", "\u202A", "\u202B",
                                          "\u202C", "\u202D", "\u202E",  // marks, embeddings, overrides
                                          "\u2066", "\u2067", "\u2068", "\u2069",  // isolates
                                          "\u2028", "\u2029", "\uFEFF"};  // separators, byte order mark
  const auto* const found = std::find_if(std::begin(turning), std::end(turning),
                                         [&](std::string_view one) { return text.starts_with(one); });
  return found == std::end(turning) ? 0 : found->size();
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t at = 0; at < cells.size(); ++at) {
    if (widths[at] > 0) {
      line += (line.empty() ? "" : std::string(k_gap, ' ')) +
              padded(cells[at], widths[at], columns[at].is_right());
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string shown_foreign(std::string text, std::size_t width) {
  return cut_to(printable(std::move(text)), width);
}

std::string printable(std::string text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0;
    if (byte < 0x20 || byte == 0x7F) {
      text[at] = '?';
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      text.replace(at, 2, "?");
    } else if (const std::size_t bytes = turning_bytes(std::string_view(text).substr(at)); bytes > 0) {
      text.replace(at, bytes, "?");
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

std::string_view name_of(ColumnUnit unit) {
  switch (unit) {
    case ColumnUnit::bytes:
      return "bytes";
    case ColumnUnit::nanoseconds:
      return "ns";
    case ColumnUnit::seconds:
      return "s";
    case ColumnUnit::share:
      return "share";
    case ColumnUnit::bytes_per_s:
      return "bytes_per_second";
    case ColumnUnit::text:
    case ColumnUnit::id:
    case ColumnUnit::count:
    case ColumnUnit::number:
      return "";
  }
  return "";
}

std::string Cell::text(ColumnUnit unit) const {
  if (shown_) {
    return shown_foreign(*shown_);
  }
  return std::visit(
      Overloads{[](std::monostate) { return std::string(); },
                [](bool value) { return std::string(value ? "yes" : "no"); },
                [&](std::int64_t value) { return number_text(value, unit); },
                [&](double value) { return number_text(value, unit); },
                [](const std::string& value) { return shown_foreign(value); },
                [](const auto& list) { return printable(fmt::format("{}", fmt::join(list, ", "))); }},
      value_);
}

std::string Cell::plain() const {
  return std::visit(
      Overloads{[](std::monostate) { return std::string(); }, [](const std::string& value) { return value; },
                [](const std::vector<std::int64_t>& list) { return fmt::format("{}", fmt::join(list, " ")); },
                [](const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, "; ")); },
                [](const auto& value) { return fmt::format("{}", value); }},
      value_);
}

void Table::add(std::vector<Cell> cells) {
  COMMLENS_CHECK(cells.size() == columns_.size(), "a row has a cell for every column");
  rows_.push_back(std::move(cells));
}

std::optional<std::size_t> Table::place_of(std::string_view key) const {
  for (std::size_t at = 0; at < columns_.size(); ++at) {
    if (columns_[at].key == key) {
      return at;
    }
  }
  return std::nullopt;
}

Table Table::picked(const std::vector<ColumnUse>& uses) const {
  std::vector<Column> kept;
  std::vector<std::size_t> places;
  for (ColumnUse use : uses) {
    const std::optional<std::size_t> place = place_of(use.key);
    if (!place) {
      continue;
    }
    const Column& from = columns_[*place];
    use.title = use.title.empty() ? from.title : std::move(use.title);
    use.unit = from.unit;
    use.scope = from.scope;
    places.push_back(*place);
    kept.push_back(std::move(use));
  }
  Table table(std::move(kept));
  for (const std::vector<Cell>& row : rows_) {
    std::vector<Cell>& cells = table.rows_.emplace_back();
    for (const std::size_t place : places) {
      cells.push_back(row[place]);
    }
  }
  return table;
}

Table Table::with_value(std::string_view key) const {
  const std::optional<std::size_t> place = place_of(key);
  COMMLENS_CHECK(place.has_value(), "the table has the column");
  Table table(columns_);
  std::copy_if(rows_.begin(), rows_.end(), std::back_inserter(table.rows_),
               [&](const std::vector<Cell>& row) { return !row[*place].is_missing(); });
  return table;
}

Table Table::with(const std::vector<Column>& more, const std::vector<Cell>& cells) const {
  COMMLENS_CHECK(cells.empty() || cells.size() == rows_.size(), "a column has a cell for every row");
  Table table = *this;
  table.columns_.insert(table.columns_.end(), more.begin(), more.end());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    table.rows_[row].resize(table.columns_.size());
    if (!cells.empty()) {
      table.rows_[row][columns_.size()] = cells[row];
    }
  }
  return table;
}

Table& Table::remove(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const std::optional<std::size_t> place = place_of(key);
    COMMLENS_CHECK(place.has_value(), "only columns of the table can be removed");
    const auto at = static_cast<std::ptrdiff_t>(*place);
    columns_.erase(columns_.begin() + at);
    for (std::vector<Cell>& row : rows_) {
      row.erase(row.begin() + at);
    }
  }
  return *this;
}

std::vector<std::vector<std::string>> Table::texts() const {
  std::vector<std::vector<std::string>> texts;
  for (const std::vector<Cell>& row : rows_) {
    std::vector<std::string>& line = texts.emplace_back();
    for (std::size_t at = 0; at < row.size(); ++at) {
      line.push_back(columns_[at].in_text ? row[at].text(columns_[at].unit) : "");
    }
  }
  return texts;
}

std::vector<std::size_t> Table::shown_widths(const std::vector<std::vector<std::string>>& texts,
                                             std::size_t width) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t at = 0; at < columns_.size(); ++at) {
    for (const std::vector<std::string>& row : texts) {
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
  const std::vector<std::vector<std::string>> lines = texts();
  const std::vector<std::size_t> all = shown_widths(lines, 0);
  const std::vector<std::size_t> shown = shown_widths(lines, room(style, indent));
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
  return wrapped(fmt::format("hidden, too narrow: {} (see --format {} or a wider terminal)\n",
                             fmt::join(titles, ", "), format),
                 style);
}

std::string Table::text(const TextStyle& style, std::size_t indent) const {
  const std::vector<std::vector<std::string>> lines = texts();
  const std::vector<std::size_t> widths = shown_widths(lines, room(style, indent));
  const std::string margin(indent, ' ');
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
  }
  std::string text = margin + in_colour(line_of(titles, widths, columns_), Colour::bold, style) + "\n";
  for (const std::vector<std::string>& row : lines) {
    text += margin + line_of(row, widths, columns_) + "\n";
  }
  return text;
}

std::string Table::csv() const { return csv_keys() + csv_rows(); }

std::string Table::csv_keys() const {
  std::vector<std::string> keys;
  for (const Column& column : columns_) {
    if (column.in_csv && !column.key.empty()) {
      keys.push_back(column.key);
    }
  }
  return csv_line(keys);
}

std::string Table::csv_rows() const {
  std::string text;
  for (const std::vector<Cell>& row : rows_) {
    std::vector<std::string> cells;
    for (std::size_t at = 0; at < row.size(); ++at) {
      if (columns_[at].in_csv && !columns_[at].key.empty()) {
        cells.push_back(row[at].plain());
      }
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
