#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens::engine {

/// GPT-2's pre-tokenizer: cuts a text into pieces that are encoded one by one, which are words with the space
/// before them, numbers, runs of punctuation and of white space, and the endings 's 't 're 've 'm 'll 'd.
/// Letters and digits of every script count. A run of invalid UTF-8 is a separate piece. Immutable: many
/// threads may use it, each with a Scratch of its own.
class PieceSplitter {
 public:
  /// The matching state of one thread.
  class Scratch {
   public:
    explicit Scratch(const PieceSplitter& splitter);
    ~Scratch();
    Scratch(Scratch&&) noexcept;

   private:
    friend class PieceSplitter;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Throws SystemError when PCRE2 lacks Unicode.
  PieceSplitter();
  ~PieceSplitter();
  PieceSplitter(const PieceSplitter&) = delete;
  PieceSplitter& operator=(const PieceSplitter&) = delete;

  /// Appends the pieces of `text`, whose concatenation is `text`. Throws SystemError if PCRE2 reaches a
  /// limit.
  void split(std::string_view text, Scratch& scratch, std::vector<std::string_view>& pieces) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Parts of at least `least` bytes (the last one may be shorter) whose pieces are those of the whole text:
/// a part ends after a visible ASCII character that white space follows.
std::vector<std::string_view> parts_of(std::string_view text, std::size_t least);

}  // namespace commlens::engine
