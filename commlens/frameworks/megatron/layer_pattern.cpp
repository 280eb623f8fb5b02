#include "commlens/frameworks/megatron/layer_pattern.hpp"

#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace commlens::megatron {
namespace {

constexpr int k_deepest_pattern = 16;
constexpr std::size_t k_longest_pattern = 100'000;  // layers

/// A sum of products of lists and numbers, as Python writes them.
class PatternText {
 public:
  explicit PatternText(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> whole() {
    std::optional<std::vector<std::int64_t>> pattern = sum(0);
    skip_blanks();
    return at_ == text_.size() ? pattern : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  bool takes(char letter) {
    skip_blanks();
    const bool is_there = at_ < text_.size() && text_[at_] == letter;
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  std::optional<std::int64_t> number() {
    skip_blanks();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
           value < 1'000'000) {
      value = value * 10 + (text_[at_++] - '0');
    }
    return at_ > begin ? std::optional(value) : std::nullopt;
  }

  std::optional<std::vector<std::int64_t>> sum(int depth) {
    if (depth > k_deepest_pattern) {
      return std::nullopt;
    }
    std::optional<std::vector<std::int64_t>> all = product(depth);
    while (all && takes('+')) {
      const std::optional<std::vector<std::int64_t>> more = product(depth);
      if (!more || all->size() + more->size() > k_longest_pattern) {
        return std::nullopt;
      }
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }

  std::optional<std::vector<std::int64_t>> product(int depth) {
    std::optional<std::vector<std::int64_t>> once = list(depth);
    while (once && takes('*')) {
      const std::optional<std::int64_t> times = number();
      if (!times || once->size() * static_cast<std::size_t>(*times) > k_longest_pattern) {
        return std::nullopt;
      }
      std::vector<std::int64_t> all;
      for (std::int64_t time = 0; time < *times && !once->empty(); ++time) {
        all.insert(all.end(), once->begin(), once->end());
      }
      once = std::move(all);
    }
    return once;
  }

  std::optional<std::vector<std::int64_t>> list(int depth) {
    if (takes('(')) {
      std::optional<std::vector<std::int64_t>> inner = sum(depth + 1);
      return takes(')') ? inner : std::nullopt;
    }
    if (!takes('[')) {
      return std::nullopt;
    }
    std::vector<std::int64_t> values;
    while (!takes(']')) {
      const std::optional<std::int64_t> value = number();
      if (!value || values.size() > k_longest_pattern) {
        return std::nullopt;
      }
      values.push_back(*value);
      takes(',');
    }
    return values;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<std::vector<bool>> checked_pattern(const std::vector<std::int64_t>& pattern, std::int64_t layers) {
  if (std::ssize(pattern) != layers) {
    return failure(fmt::format("has {} entries for {} layers", pattern.size(), layers));
  }
  std::vector<bool> result;
  for (const std::int64_t entry : pattern) {
    if (entry != 0 && entry != 1) {
      return failure(fmt::format("has the entry {}; entries are 0 and 1", entry));
    }
    result.push_back(entry == 1);
  }
  return result;
}

}  // namespace

Result<std::vector<bool>> layer_pattern(const ConfigNode& frequency, std::int64_t layers) {
  if (layers > static_cast<std::int64_t>(k_longest_pattern)) {
    return failure(fmt::format("is for {} layers; no model has that many", layers));
  }
  if (frequency.kind == ConfigNode::Kind::list) {
    std::vector<std::int64_t> pattern;
    for (const ConfigNode& item : frequency.items) {
      pattern.push_back(as_integer(item).value_or(-1));
    }
    return checked_pattern(pattern, layers);
  }
  if (frequency.text.find('[') != std::string::npos) {
    const std::optional<std::vector<std::int64_t>> pattern = PatternText(frequency.text).whole();
    return pattern ? checked_pattern(*pattern, layers)
                   : failure(fmt::format("is '{}'; write a number or a list such as ([0]*3+[1]*58)",
                                         shown_text(frequency.text)));
  }
  const Result<std::int64_t> every = as_integer(frequency);
  if (!every || *every < 1) {
    return failure(!every ? every.error().message : fmt::format("is {}; it must be at least 1", *every));
  }
  std::vector<bool> pattern;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    pattern.push_back(layer % *every == 0);
  }
  return pattern;
}

}  // namespace commlens::megatron
