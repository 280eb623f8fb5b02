#include "commlens/formats/io/text_search.hpp"

#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats {

bool any_line(const std::filesystem::path& path, std::string_view head, std::int64_t furthest,
              const std::function<bool(std::string_view)>& is_sought) {
  if (head.empty() || head.find('\0') != std::string_view::npos) {
    return false;
  }
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return false;
  }
  LineReader lines(std::move(*source));
  std::string_view line;
  for (std::int64_t seen = 0; seen < furthest; seen += static_cast<std::int64_t>(line.size()) + 1) {
    const Result<bool> more = lines.next(line);
    if (!more || !*more) {
      return false;
    }
    if (is_sought(line)) {
      return true;
    }
  }
  return false;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t start = text.find_first_not_of(blanks);
  return start == std::string_view::npos ? std::string_view()
                                         : text.substr(start, text.find_last_not_of(blanks) - start + 1);
}

std::string_view json_object_in(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos && text[start] == '{' ? text.substr(start) : std::string_view();
}

std::vector<std::string_view> blank_separated(std::string_view text, std::size_t most) {
  std::vector<std::string_view> words;
  while (words.size() < most) {
    const std::size_t start = text.find_first_not_of(k_blanks);
    if (start == std::string_view::npos) {
      break;
    }
    text.remove_prefix(start);
    words.push_back(text.substr(0, text.find_first_of(k_blanks)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

}  // namespace commlens::formats
