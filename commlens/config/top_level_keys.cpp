#include "commlens/config/top_level_keys.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace commlens {
namespace {

constexpr std::size_t k_looked_at = 65536;
constexpr std::size_t k_most_keys = 1000;

bool is_key_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-' ||
         letter == '.';
}

/// Walks over a text and notes the words before a colon at the outermost level of a map.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<std::string> keys() {
    while (at_ < text_.size() && keys_.size() < k_most_keys) {
      step();
    }
    return std::move(keys_);
  }

 private:
  void step() {
    const char letter = text_[at_];
    const bool starts_line = at_ == 0 || text_[at_ - 1] == '\n';
    if (letter == '#' && (starts_line || std::isspace(static_cast<unsigned char>(text_[at_ - 1])) != 0)) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (letter == '{' || letter == '[') {
      ++depth_;
      ++at_;
    } else if (letter == '}' || letter == ']') {
      --depth_;
      ++at_;
    } else if (letter == '"' || letter == '\'') {
      take_quoted(letter, starts_line);
    } else if (is_key_letter(letter)) {
      take_word(starts_line);
    } else {
      ++at_;
    }
  }

  void take_quoted(char quote, bool starts_line) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2U : 1U;
    }
    end = std::min(end, text_.size());
    const std::string_view word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = std::min(end + 1, text_.size());
    note(word, starts_line);
  }

  void take_word(bool starts_line) {
    std::size_t end = at_;
    while (end < text_.size() && is_key_letter(text_[end])) {
      ++end;
    }
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    note(word, starts_line);
  }

  void note(std::string_view word, bool starts_line) {
    std::size_t colon = at_;
    while (colon < text_.size() && (text_[colon] == ' ' || text_[colon] == '\t')) {
      ++colon;
    }
    const bool is_key = colon < text_.size() && text_[colon] == ':';
    const bool is_block_key = is_key && depth_ == 0 && starts_line;
    if (is_block_key || (is_key && depth_ == 1 && !is_block_)) {
      keys_.emplace_back(word);
      std::replace(keys_.back().begin(), keys_.back().end(), '-', '_');
    }
    is_block_ = is_block_ || is_block_key;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_block_ = false;  // keys are at the start of lines, not in braces
  std::vector<std::string> keys_;
};

}  // namespace

std::vector<std::string> top_level_keys(std::string_view content) {
  return Scanner(content.substr(0, k_looked_at)).keys();
}

bool starts_with_argument(std::string_view content) {
  while (!content.empty()) {
    if (std::isspace(static_cast<unsigned char>(content.front())) != 0) {
      content.remove_prefix(1);
    } else if (content.front() == '#') {
      content.remove_prefix(std::min(content.find('\n'), content.size()));
    } else {
      return content.size() > 2 && content.starts_with("--") &&
             std::isalpha(static_cast<unsigned char>(content[2])) != 0;
    }
  }
  return false;
}

bool is_shell_script(const std::filesystem::path& path, std::string_view content) {
  if (starts_with_argument(content)) {
    return false;
  }
  const std::string_view first = content.substr(0, content.find('\n'));
  const bool is_of_shell = first.starts_with("#!") && first.find("sh") != std::string_view::npos;
  const std::string name = path.extension().string();
  return is_of_shell || name == ".sh" || name == ".bash" || name == ".slurm" || name == ".sbatch";
}

}  // namespace commlens
