#include "commlens/engine/data/bpe_pieces.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace commlens::engine {
namespace {

// Source: openai/gpt-2 src/encoder.py, Encoder.pat.
constexpr std::string_view k_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::size_t k_stack_start = std::size_t{32} << 10;
constexpr std::size_t k_stack_limit = std::size_t{8} << 20;

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct Freed {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <typename T>
using Owned = std::unique_ptr<T, Freed>;

}  // namespace

struct PieceSplitter::State {
  Owned<pcre2_code> code;
};

struct PieceSplitter::Scratch::State {
  Owned<pcre2_match_data> match;
  Owned<pcre2_jit_stack> stack;
  Owned<pcre2_match_context> context;
};

PieceSplitter::Scratch::Scratch(const PieceSplitter& splitter) : state_(std::make_unique<State>()) {
  state_->match.reset(pcre2_match_data_create_from_pattern(splitter.state_->code.get(), nullptr));
  state_->stack.reset(pcre2_jit_stack_create(k_stack_start, k_stack_limit, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  if (!state_->match || !state_->context) {
    throw std::bad_alloc();
  }
  if (state_->stack) {  // absent where PCRE2 has no just-in-time compiler
    pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
  }
}
PieceSplitter::Scratch::~Scratch() = default;
PieceSplitter::Scratch::Scratch(Scratch&&) noexcept = default;

PieceSplitter::PieceSplitter() : state_(std::make_unique<State>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  state_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(k_pattern.data()), k_pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &offset,
                                   nullptr));
  if (!state_->code) {
    throw SystemError(
        fmt::format("PCRE2 cannot compile GPT-2's pattern: {}; install a PCRE2 10.34 or newer with Unicode",
                    message_of(error)));
  }
  // Without the compiler, matching is slower and equally correct.
  static_cast<void>(pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE));
}
PieceSplitter::~PieceSplitter() = default;

void PieceSplitter::split(std::string_view text, Scratch& scratch,
                          std::vector<std::string_view>& pieces) const {
  pcre2_match_data* const match = scratch.state_->match.get();
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(match);
  for (std::size_t at = 0; at < text.size();) {
    const int count = pcre2_match(state_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  at, 0, match, scratch.state_->context.get());
    if (count < 0 && count != PCRE2_ERROR_NOMATCH) {
      throw SystemError(fmt::format("PCRE2 cannot split the text: {}", message_of(count)));
    }
    const bool matches = count > 0 && found[1] > found[0];
    const std::size_t start = matches ? found[0] : text.size();
    if (start > at) {
      pieces.push_back(text.substr(at, start - at));
    }
    if (!matches) {
      return;
    }
    pieces.push_back(text.substr(start, found[1] - start));
    at = found[1];
  }
}

std::vector<std::string_view> parts_of(std::string_view text, std::size_t least) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    std::size_t end = std::min(std::max<std::size_t>(least, 1), text.size());
    const auto ends_a_word = [&](std::size_t at) {
      return text[at - 1] > ' ' && text[at - 1] < '\x7f' && (text[at] == ' ' || text[at] == '\n');
    };
    while (end < text.size() && !ends_a_word(end)) {
      ++end;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

}  // namespace commlens::engine
