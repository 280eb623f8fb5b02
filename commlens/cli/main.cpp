#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>

#include <sys/ioctl.h>
#include <unistd.h>

#include "commlens/base/unfinished.hpp"
#include "commlens/cli/command.hpp"

namespace {

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused = no_colour != nullptr && *no_colour != '\0';
  return !refused && terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// As wide as the terminal, at least 80 columns; unlimited if the output is no terminal.
commlens::TextStyle standard_output_style() {
  if (isatty(STDOUT_FILENO) == 0) {
    return {};
  }
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  constexpr std::size_t least = 80;
  return {.width = std::max<std::size_t>(known ? size.ws_col : 0, least), .colour = wants_colour()};
}

int failed(const char* why) {
  std::cerr << "commlens: " << why << '\n';
  return static_cast<int>(commlens::ExitCode::system_failed);
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  std::signal(SIGPIPE, SIG_DFL);  // `| head` ends us silently, even if the parent ignored the signal
  commlens::remove_unfinished_on_signals();
  commlens::Console console{std::cout, std::cerr, standard_output_style(), isatty(STDERR_FILENO) != 0};
  try {
    return static_cast<int>(commlens::run({argv + 1, argv + argc}, console));
  } catch (const std::bad_alloc&) {
    return failed("out of memory; ask for fewer ranks or iterations, or one --rank");
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}
