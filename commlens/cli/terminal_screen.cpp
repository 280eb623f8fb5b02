#include "commlens/cli/terminal_screen.hpp"

#include <algorithm>
#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

namespace commlens {

TerminalScreen::TerminalScreen(Console& console, bool is_wanted)
    : console_(console), is_used_(is_wanted && &console.out == &std::cout && isatty(STDOUT_FILENO) != 0) {
  if (is_used_) {
    write_out(console_, "\033[?25l\033[2J");  // no cursor, an empty screen
  }
}

TerminalScreen::~TerminalScreen() {
  if (is_used_) {
    console_.out << "\033[?25h" << std::flush;
  }
}

TerminalScreen::Size TerminalScreen::size() {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_row == 0 || window.ws_col == 0) {
    return {};
  }
  return {.lines = window.ws_row, .columns = window.ws_col};
}

TextStyle TerminalScreen::style() const { return {.width = size().columns, .colour = console_.style.colour}; }

std::size_t TerminalScreen::rows() const {
  constexpr std::size_t others = 14;  // the head, alerts, the table of ops
  constexpr std::size_t least = 4;
  return std::max(size().lines, others + least) - others;
}

void TerminalScreen::draw(const std::string& text) {
  std::string drawn = "\033[H";
  std::size_t lines = 1;
  for (const char character : text) {
    if (character == '\n') {
      if (++lines > size().lines) {
        break;
      }
      drawn += "\033[K\r\n";
    } else {
      drawn += character;
    }
  }
  write_out(console_, drawn + "\033[K\033[J");
}

}  // namespace commlens
