#include "commlens/formats/io/json_stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "commlens/formats/io/text_search.hpp"

namespace commlens::formats {
namespace {

constexpr std::size_t k_run = std::size_t{256} << 10;  // a run is handed out once it is this long

enum class Mark : std::uint8_t { none, space, quote, opening, closing, comma };

constexpr std::array<Mark, 256> marks() {
  std::array<Mark, 256> table{};
  for (const char c : {' ', '\t', '\r', '\n'}) {
    table[static_cast<unsigned char>(c)] = Mark::space;
  }
  table['"'] = Mark::quote;
  table['{'] = table['['] = Mark::opening;
  table['}'] = table[']'] = Mark::closing;
  table[','] = Mark::comma;
  return table;
}
constexpr std::array<Mark, 256> k_marks = marks();

Mark mark_of(char c) { return k_marks[static_cast<unsigned char>(c)]; }

/// The byte after the string's closing quote, for `at` inside a string; null when it is not in [at, end).
const char* end_of_string(const char* at, const char* end) {
  while (at < end) {
    const auto* const quote =
        static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end - at)));
    if (quote == nullptr) {
      return nullptr;
    }
    // The opening quote ends the walk back.
    std::ptrdiff_t backslashes = 0;
    while (*(quote - 1 - backslashes) == '\\') {
      ++backslashes;
    }
    if (backslashes % 2 == 0) {
      return quote + 1;
    }
    at = quote + 1;
  }
  return nullptr;
}

}  // namespace

JsonStream::JsonStream(TextSource source, std::string_view array)
    : source_(std::move(source)), array_(array), buffer_(2 * source_.block() + k_padding) {}

Result<JsonStream> JsonStream::open(const std::filesystem::path& path, std::string_view array) {
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  return JsonStream(std::move(*source), array);
}

Error JsonStream::wrong(std::string_view what) const {
  return {
      fmt::format("{}: byte {}: {}", source_.name(), dropped_ + static_cast<std::int64_t>(begin_ - 1), what)};
}

/// Reads more after the unread text; false at the end of the source.
Result<bool> JsonStream::fill() {
  if (at_end_) {
    return false;
  }
  if (begin_ > 1) {
    std::memmove(&buffer_[1], &buffer_[begin_], end_ - begin_);
    dropped_ += static_cast<std::int64_t>(begin_ - 1);
    end_ -= begin_ - 1;
    begin_ = 1;
  }
  if (buffer_.size() - k_padding - end_ < source_.block()) {
    if (end_ > k_largest_piece) {
      return tl::unexpected(wrong(fmt::format(
          "a single value of more than {} MiB; is a bracket or quote left open?", k_largest_piece >> 20)));
    }
    buffer_.resize(2 * buffer_.size());
  }
  const Result<std::size_t> got = source_.read(&buffer_[end_], buffer_.size() - k_padding - end_);
  if (!got) {
    return tl::unexpected(got.error());
  }
  end_ += *got;
  std::fill_n(&buffer_[end_], k_padding, '\0');
  at_end_ = *got == 0;
  return !at_end_;
}

/// The next byte that is no white space, which stays unread; -1 at the end.
Result<int> JsonStream::peek() {
  while (true) {
    while (begin_ < end_ && mark_of(buffer_[begin_]) == Mark::space) {
      ++begin_;
    }
    if (begin_ < end_) {
      return static_cast<unsigned char>(buffer_[begin_]);
    }
    const Result<bool> more = fill();
    if (!more) {
      return tl::unexpected(more.error());
    }
    if (!*more) {
      return -1;
    }
  }
}

Result<bool> JsonStream::start() {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  Result<int> first = peek();
  if (first && std::string_view(&buffer_[begin_], end_ - begin_).starts_with(byte_order_mark)) {
    begin_ += byte_order_mark.size();
    first = peek();
  }
  if (!first) {
    return tl::unexpected(first.error());
  }
  if (*first != '{' && *first != '[') {
    return tl::unexpected(wrong(*first < 0 ? "the file is empty" : "expected JSON, an object or an array"));
  }
  ++begin_;
  is_array_text_ = *first == '[';
  state_ = is_array_text_ ? State::elements : State::members;
  return true;
}

Result<bool> JsonStream::next(Piece& piece) {
  piece = {};
  if (is_overwritten_) {
    buffer_[begin_] = overwritten_;
    is_overwritten_ = false;
  }
  if (state_ == State::start) {
    if (Result<bool> started = start(); !started) {
      return started;
    }
  }
  while (state_ != State::finished) {
    Result<bool> found = state_ == State::members ? next_member(piece) : next_run(piece);
    if (!found || *found) {
      return found;
    }
  }
  return false;
}

/// Looks at the unread text from scan.at on, as far as the value at its start goes; whether its end was
/// found.
bool JsonStream::look_for_end(ValueScan& scan) const {
  const char* const text = &buffer_[begin_];
  const std::size_t size = end_ - begin_;
  while (scan.at < size) {
    if (scan.in_string) {
      const char* const after = end_of_string(text + scan.at, text + size);
      scan.at = after == nullptr ? size : static_cast<std::size_t>(after - text);
      scan.in_string = after == nullptr;
      if (!scan.in_string && scan.depth == 0) {
        return true;
      }
      continue;
    }
    const Mark mark = mark_of(text[scan.at]);
    if (scan.depth == 0 && (mark == Mark::space || mark == Mark::comma || mark == Mark::closing)) {
      return true;  // of a number or a word
    }
    scan.depth += mark == Mark::opening ? 1 : mark == Mark::closing ? -1 : 0;
    scan.in_string = mark == Mark::quote;
    ++scan.at;
    if (scan.depth == 0 && mark == Mark::closing) {
      return true;
    }
  }
  return false;
}

/// The length of the value at begin_; false when the text ends within it.
Result<bool> JsonStream::skip_value_text(std::size_t& length) {
  ValueScan scan;
  while (!look_for_end(scan)) {
    Result<bool> more = fill();
    if (!more || !*more) {
      return more;
    }
  }
  length = scan.at;
  return true;
}

/// False when the members are over, or the array begins.
Result<bool> JsonStream::next_member(Piece& piece) {
  Result<int> next = peek();
  while (next && *next == ',') {
    ++begin_;
    next = peek();
  }
  if (!next) {
    return tl::unexpected(next.error());
  }
  if (*next < 0 || *next == '}') {
    is_cut_off_ = *next < 0;
    state_ = State::finished;
    return false;
  }
  if (*next != '"') {
    return tl::unexpected(wrong("expected the name of a member in quotes"));
  }
  std::size_t length = 0;
  Result<bool> whole = skip_value_text(length);
  std::string key(&buffer_[begin_ + 1], whole && *whole ? length - 2 : 0);
  begin_ += whole && *whole ? length : 0;
  next = whole && *whole ? peek() : Result<int>(-1);
  if (whole && next && *next == ':') {
    ++begin_;
    next = peek();
    if (next && *next == '[' && key == array_) {
      ++begin_;
      state_ = State::elements;
      return false;
    }
    whole = next && *next >= 0 ? skip_value_text(length) : Result<bool>(false);
  } else if (whole && next && *next >= 0) {
    return tl::unexpected(wrong("expected ':' after the name of a member"));
  }
  if (!whole || !next) {
    return tl::unexpected(whole ? next.error() : whole.error());
  }
  if (!*whole || *next < 0) {
    is_cut_off_ = true;
    state_ = State::finished;
    return false;
  }
  if (length == 0) {
    return tl::unexpected(wrong("expected a value"));
  }
  key_ = std::move(key);
  piece = {false, key_, {&buffer_[begin_], length}};
  begin_ += length;
  return true;
}

/// Looks at the unread text from looked_at_ on, as far as a run goes, and notes where its whole elements end.
void JsonStream::take_whole_elements() {
  const char* const text = &buffer_[begin_];
  const char* const end = text + (end_ - begin_);
  const char* at = text + looked_at_;
  while (at < end) {
    if (in_string_) {
      const char* const after = end_of_string(at, end);
      in_string_ = after == nullptr;
      at = in_string_ ? end : after;
      continue;
    }
    const Mark mark = mark_of(*at);
    if (mark == Mark::none) {
      has_text_ = true;
    } else if (mark == Mark::quote) {
      has_text_ = in_string_ = true;
    } else if (mark == Mark::opening) {
      has_text_ = true;
      ++depth_;
    } else if (depth_ > 0) {
      depth_ -= mark == Mark::closing ? 1 : 0;
    } else if (mark != Mark::space) {  // a comma between elements, or the end of the array
      const auto here = static_cast<std::size_t>(at - text);
      whole_ = has_text_ ? here : whole_;
      has_text_ = false;
      is_array_over_ = mark == Mark::closing;
      if (is_array_over_ || whole_ >= k_run) {
        looked_at_ = here;
        return;
      }
    }
    ++at;
  }
  looked_at_ = static_cast<std::size_t>(at - text);
}

void JsonStream::hand_out_run(Piece& piece) {
  buffer_[begin_ - 1] = '[';
  overwritten_ = std::exchange(buffer_[begin_ + whole_], ']');
  is_overwritten_ = true;
  piece = {true, {}, {&buffer_[begin_ - 1], whole_ + 2}};
  begin_ += whole_;
  looked_at_ -= whole_;
  whole_ = 0;
}

/// Whether the text looked at ends, white space aside, with a closing bracket.
bool JsonStream::last_is_bracket() const {
  std::size_t last = begin_ + looked_at_;
  while (last > begin_ && mark_of(buffer_[last - 1]) == Mark::space) {
    --last;
  }
  return last > begin_ && mark_of(buffer_[last - 1]) == Mark::closing;
}

/// False when the array is over, or the text ends within it.
Result<bool> JsonStream::next_run(Piece& piece) {
  while (true) {
    if (looked_at_ == 0) {  // commas that stand alone would not be valid in a run
      const Result<int> next = peek();
      if (!next) {
        return tl::unexpected(next.error());
      }
      if (*next == ',') {
        ++begin_;
        continue;
      }
    }
    if (!is_array_over_) {
      take_whole_elements();
    }
    if (whole_ > 0 && (is_array_over_ || whole_ >= k_run || at_end_)) {
      hand_out_run(piece);
      return true;
    }
    if (is_array_over_) {
      begin_ += looked_at_ + 1;
      looked_at_ = 0;
      is_array_over_ = false;
      state_ = is_array_text_ ? State::finished : State::members;
      return false;
    }
    Result<bool> more = fill();
    if (!more) {
      return more;
    }
    // The element at the end of a text that was cut off is whole if its bracket is closed.
    const bool is_closed = has_text_ && depth_ == 0 && !in_string_ && last_is_bracket();
    if (!*more && is_closed) {
      whole_ = looked_at_;
      has_text_ = false;
    }
    if (!*more && whole_ == 0) {
      is_cut_off_ = true;
      state_ = State::finished;
      return false;
    }
  }
}

std::vector<std::string_view> elements_of(std::string_view array) {
  std::vector<std::string_view> elements;
  if (array.size() < 2) {
    return elements;
  }
  const char* const end = array.data() + array.size() - 1;
  const char* start = array.data() + 1;
  std::int64_t depth = 0;
  const auto take = [&](const char* stop) {
    const std::string_view text = trimmed({start, static_cast<std::size_t>(stop - start)}, " \t\r\n");
    if (!text.empty()) {
      elements.push_back(text);
    }
    start = stop + 1;
  };
  for (const char* at = start; at < end; ++at) {
    const Mark mark = mark_of(*at);
    if (mark == Mark::quote) {
      const char* const after = end_of_string(at + 1, end);
      at = (after == nullptr ? end : after) - 1;
    } else if (mark == Mark::comma && depth == 0) {
      take(at);
    } else {
      depth += mark == Mark::opening ? 1 : mark == Mark::closing ? -1 : 0;
    }
  }
  take(end);
  return elements;
}

}  // namespace commlens::formats
