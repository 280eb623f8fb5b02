#include "commlens/config/json_document.hpp"

#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/config/tree_builder.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_longest_reason = 160;

/// Reads characters and counts the line of the last one (nlohmann reports no positions).
class LineCounter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCounter(std::string_view::const_iterator at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCounter& operator++() {
    *line_ += after_newline_ ? 1 : 0;
    after_newline_ = *at_ == '\n';
    ++at_;
    return *this;
  }
  LineCounter operator++(int) {
    LineCounter before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineCounter& other) const { return at_ == other.at_; }

 private:
  std::string_view::const_iterator at_;
  int* line_;
  bool after_newline_ = false;
};

/// Passes nlohmann's events on; returning false stops the parser.
class JsonHandler {
 public:
  JsonHandler(TreeBuilder& builder, const int& line) : builder_(builder), line_(line) {}

  bool null() { return builder_.null(line_), go_on(); }
  bool boolean(bool value) { return plain(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return plain(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) { return plain(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return plain(text); }
  bool string(std::string& text) { return builder_.scalar(std::move(text), true, line_), go_on(); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return builder_.begin(ConfigNode::Kind::map, line_), go_on(); }
  bool key(std::string& text) { return string(text); }
  bool end_object() { return builder_.end(), go_on(); }
  bool start_array(std::size_t) { return builder_.begin(ConfigNode::Kind::list, line_), go_on(); }
  bool end_array() { return builder_.end(), go_on(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& problem) {
    error_ = problem.what();
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  bool plain(std::string text) { return builder_.scalar(std::move(text), false, line_), go_on(); }
  bool go_on() const { return !builder_.failed(); }

  TreeBuilder& builder_;
  const int& line_;
  std::string error_;
};

/// "[json.exception…] parse error at line 3, column 5: what is wrong; last read: …" -> "what is wrong".
std::string short_reason(const std::string& problem) {
  const std::size_t colon = problem.find(": ");
  const std::string reason = colon == std::string::npos ? problem : problem.substr(colon + 2);
  return shown_text(reason.substr(0, reason.find("; last read")), k_longest_reason);
}

}  // namespace

Result<ConfigNode> parse_json(std::string_view file, std::string_view content) {
  if (const Result<void> text = check_is_text(file, content); !text) {
    return tl::unexpected(text.error());
  }
  int line = 1;
  TreeBuilder builder(file);
  JsonHandler handler(builder, line);
  const LineCounter first(content.begin(), &line);
  const LineCounter last(content.end(), &line);
  const bool parsed = nlohmann::json::sax_parse(first, last, &handler);
  if (builder.failed()) {
    return failure(builder.error());
  }
  if (!parsed || !builder.has_root()) {
    return failure(fmt::format("{}:{}: not valid JSON: {}", file, line, short_reason(handler.error())));
  }
  return builder.root();
}

}  // namespace commlens
