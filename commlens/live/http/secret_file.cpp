#include "commlens/live/http/secret_file.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <sys/stat.h>

#include "commlens/base/file.hpp"

namespace commlens {

Result<std::string> read_secret_file(const std::string& file, std::string_view what) {
  struct stat state{};
  const bool is_there = stat(file.c_str(), &state) == 0;
  if (is_there && !S_ISREG(state.st_mode)) {
    return failure(fmt::format("{}: {} is in a regular file", file, what));
  }
  if (is_there && (state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return failure(fmt::format("{}: others may read it; chmod 600 {}", file, file));
  }
  constexpr std::int64_t most = 4096;
  return read_text_file(file, most).and_then([&](std::string text) -> Result<std::string> {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
      text.pop_back();
    }
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
      return failure(fmt::format("{}: {} is one line of visible ASCII characters", file, what));
    }
    return text;
  });
}

}  // namespace commlens
