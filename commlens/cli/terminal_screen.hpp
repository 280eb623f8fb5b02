#pragma once
#include <cstddef>
#include <string>

#include "commlens/cli/console.hpp"

namespace commlens {

/// Standard output as a screen that is drawn again and again, where it is a terminal. At the end the last
/// drawing stays.
class TerminalScreen {
 public:
  /// `is_wanted` false: the screen is not cleared.
  explicit TerminalScreen(Console& console, bool is_wanted = true);
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  bool is_used() const { return is_used_; }
  /// As the terminal is now.
  TextStyle style() const;
  /// Lines of a table of ranks that leave room for the rest.
  std::size_t rows() const;
  /// Lines beyond the height are left out.
  void draw(const std::string& text);

 private:
  struct Size {
    std::size_t lines = 24;
    std::size_t columns = 80;
  };
  static Size size();

  Console& console_;
  bool is_used_;
};

}  // namespace commlens
