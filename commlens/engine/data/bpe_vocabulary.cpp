#include "commlens/engine/data/bpe_vocabulary.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"

namespace commlens::engine {
namespace {

using Json = nlohmann::json;
using Token = BpeVocabulary::Token;
using Ids = std::unordered_map<std::string, Token>;

constexpr std::int64_t k_file_limit = std::int64_t{64} << 20;
constexpr std::uint64_t k_most_ids = std::uint64_t{1} << 24;
constexpr std::size_t k_shown = 40;  // characters of a bad token in an error

std::int64_t line_at(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position);
  return 1 + std::count(before.begin(), before.end(), '\n');
}

/// Scans text and counts lines for errors.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;
  reference operator*() const { return *at; }
  Cursor& operator++() {
    *reached = ++at;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

/// Accepts only {"token": id, …}.
class VocabularyReader final : public nlohmann::json_sax<Json> {
 public:
  VocabularyReader(const std::filesystem::path& file, std::string_view text) : file_(file), text_(text) {}

  const char** reached() { return &reached_; }
  Ids& ids() { return ids_; }
  const std::optional<Error>& error() const { return error_; }

  bool number_integer(number_integer_t value) override { return refuse(fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!is_open_ || value >= k_most_ids) {
      return refuse(fmt::format("{}", value));
    }
    const auto id = static_cast<Token>(value);
    if (!used_.insert(id).second) {
      return fail(fmt::format("id {} is given twice", id));
    }
    if (!ids_.emplace(key_, id).second) {
      return fail(fmt::format("token \"{}\" is given twice", key_.substr(0, k_shown)));
    }
    return true;
  }
  bool null() override { return refuse("null"); }
  bool boolean(bool value) override { return refuse(value ? "true" : "false"); }
  bool number_float(number_float_t, const string_t& text) override { return refuse(text); }
  bool string(string_t&) override { return refuse("a text"); }
  bool binary(binary_t&) override { return refuse("binary"); }
  bool start_object(std::size_t) override {
    if (is_open_) {
      return refuse("an object");
    }
    return is_open_ = true;
  }
  bool key(string_t& text) override {
    key_ = text;
    position_ = static_cast<std::size_t>(reached_ - text_.data());
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return refuse("a list"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    position_ = position;
    return fail(position >= text_.size() ? "the file ends too early; is it complete?"
                                         : "this is not JSON; expected GPT-2's vocab.json");
  }

 private:
  bool fail(const std::string& what) {
    error_ = Error{fmt::format("{}:{}: {}", file_.string(), line_at(text_, position_), what)};
    return false;
  }
  bool refuse(const std::string& found) {
    return fail(is_open_ ? fmt::format("\"{}\" is {}, not a token id from 0 to {}", key_.substr(0, k_shown),
                                       found.substr(0, k_shown), k_most_ids - 1)
                         : fmt::format("expected {{\"token\": id, …}}, found {}", found.substr(0, k_shown)));
  }

  const std::filesystem::path& file_;
  std::string_view text_;
  const char* reached_ = text_.data();
  std::size_t position_ = 0;  // where the last key ends
  bool is_open_ = false;
  std::string key_;
  Ids ids_;
  std::unordered_set<Token> used_;
  std::optional<Error> error_;
};

Result<Ids> read_ids(const std::filesystem::path& file) {
  const Result<std::string> text = read_text_file(file, k_file_limit);
  if (!text) {
    return tl::unexpected(text.error());
  }
  VocabularyReader reader(file, *text);
  const char* const end = text->data() + text->size();
  Json::sax_parse(Cursor{text->data(), reader.reached()}, Cursor{end, reader.reached()}, &reader);
  if (const std::optional<Error>& error = reader.error()) {
    return tl::unexpected(*error);
  }
  if (reader.ids().empty()) {
    return failure(fmt::format("{}:1: it has no tokens", file.string()));
  }
  return std::move(reader.ids());
}

struct MergeLine {
  Token left;
  Token right;
  Token merged;
};

/// Parses one line of merges.txt; the error describes the problem.
Result<MergeLine> merge_of_line(std::string_view line, const Ids& ids) {
  const std::size_t space = line.find(' ');
  const std::string left(line.substr(0, space));
  const std::string right(space == std::string_view::npos ? "" : line.substr(space + 1));
  if (left.empty() || right.empty() || right.find(' ') != std::string::npos) {
    return failure(fmt::format("'{}' is not a pair of tokens", line.substr(0, k_shown)));
  }
  std::array<Token, 3> found{};
  const std::array<std::string, 3> names = {left, right, left + right};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto id = ids.find(names[i]);
    if (id == ids.end()) {
      return failure(fmt::format("'{}' is not in the vocabulary file", names[i].substr(0, k_shown)));
    }
    found[i] = id->second;
  }
  return MergeLine{found[0], found[1], found[2]};
}

std::uint64_t key_of(Token left, Token right) { return (std::uint64_t{left} << 32U) | right; }

Result<std::unordered_map<std::uint64_t, BpeVocabulary::Merge>> read_merges(const std::filesystem::path& file,
                                                                            const Ids& ids) {
  const Result<std::string> text = read_text_file(file, k_file_limit);
  if (!text) {
    return tl::unexpected(text.error());
  }
  std::unordered_map<std::uint64_t, BpeVocabulary::Merge> merges;
  std::string_view rest = *text;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || (number == 1 && line.starts_with("#version"))) {
      continue;
    }
    const Result<MergeLine> merge = merge_of_line(line, ids);
    if (!merge) {
      return failure(fmt::format("{}:{}: {}", file.string(), number, merge.error().message));
    }
    const auto rank = static_cast<std::uint32_t>(merges.size());
    if (!merges.try_emplace(key_of(merge->left, merge->right), BpeVocabulary::Merge{rank, merge->merged})
             .second) {
      return failure(fmt::format("{}:{}: this pair is already in an earlier line", file.string(), number));
    }
  }
  if (merges.empty()) {
    return failure(fmt::format("{}:1: it has no merges", file.string()));
  }
  return merges;
}

}  // namespace

std::string character_of_byte(unsigned char byte) {
  const auto is_shown = [](unsigned value) {
    return (value > 0x20 && value < 0x7f) || (value > 0xa0 && value < 0x100 && value != 0xad);
  };
  unsigned character = byte;
  if (!is_shown(byte)) {
    character = 0x100;
    for (unsigned before = 0; before < byte; ++before) {
      character += is_shown(before) ? 0U : 1U;
    }
  }
  if (character < 0x80) {
    return {static_cast<char>(character)};
  }
  return {static_cast<char>(0xc0U | (character >> 6U)), static_cast<char>(0x80U | (character & 0x3fU))};
}

Result<BpeVocabulary> BpeVocabulary::read(const std::filesystem::path& vocab_file,
                                          const std::filesystem::path& merge_file) {
  const Result<Ids> ids = read_ids(vocab_file);
  if (!ids) {
    return tl::unexpected(ids.error());
  }
  auto merges = read_merges(merge_file, *ids);
  if (!merges) {
    return tl::unexpected(merges.error());
  }
  BpeVocabulary vocabulary;
  vocabulary.merges_ = std::move(*merges);
  for (const auto& [token, id] : *ids) {
    vocabulary.size_ = std::max(vocabulary.size_, std::int64_t{id} + 1);
  }
  for (unsigned byte = 0; byte < vocabulary.of_byte_.size(); ++byte) {
    const auto found = ids->find(character_of_byte(static_cast<unsigned char>(byte)));
    vocabulary.of_byte_[byte] = found == ids->end() ? k_no_token : found->second;
  }
  return vocabulary;
}

std::optional<BpeVocabulary::Merge> BpeVocabulary::merge(Token left, Token right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace commlens::engine
