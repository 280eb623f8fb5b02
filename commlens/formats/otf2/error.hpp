#pragma once
#include <string>

namespace commlens::formats::otf2 {

/// Keeps what the OTF2 library says of its errors, which it would print otherwise, while it lives.
class Otf2Messages {
 public:
  Otf2Messages();
  ~Otf2Messages();
  Otf2Messages(const Otf2Messages&) = delete;
  Otf2Messages& operator=(const Otf2Messages&) = delete;
  /// The first error's text; a general one when there was none.
  std::string first() const { return text_.empty() ? "the archive is damaged or incomplete" : text_; }
  void add(const std::string& text) { text_ = text_.empty() ? text : text_; }

 private:
  std::string text_;
};

}  // namespace commlens::formats::otf2
