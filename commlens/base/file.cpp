#include "commlens/base/file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/base/unfinished.hpp"

namespace commlens {
namespace {

using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

File open_file(const std::filesystem::path& path, const char* mode) {
  return {std::fopen(path.c_str(), mode), &std::fclose};
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path, std::int64_t limit) {
  std::error_code status;
  if (!std::filesystem::exists(path, status)) {
    return failure(fmt::format("{}: no such file or directory; check the path", path.string()));
  }
  if (!std::filesystem::is_regular_file(path, status)) {
    return failure(fmt::format("{}: not a regular file", path.string()));
  }
  const File file = open_file(path, "rb");
  if (!file) {
    return failure(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }
  std::string content;
  char block[65536];
  while (const std::size_t got = std::fread(block, 1, sizeof block, file.get())) {
    content.append(block, got);
    if (static_cast<std::int64_t>(content.size()) > limit) {
      return failure(
          fmt::format("{}: larger than {} bytes, too large for this kind of file", path.string(), limit));
    }
  }
  if (std::ferror(file.get()) != 0) {
    return failure(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }
  return content;
}

namespace {

void write_content(const std::filesystem::path& into, const char* mode, std::string_view content,
                   const std::filesystem::path& shown) {
  File file = open_file(into, mode);
  if (!file) {
    throw_cannot_write(shown, errno);
  }
  const bool is_written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
  if (!is_written || std::fclose(file.release()) != 0) {
    throw_cannot_write(shown, errno);
  }
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const WritePlace place = write_place(path);
  if (place.is_appended_to) {
    write_content(path, "ab", content, path);
    return;
  }
  Unfinished unfinished(new_file_beside(place.path));
  write_content(unfinished.path(), "wb", content, path);
  if (std::rename(unfinished.path().c_str(), place.path.c_str()) != 0) {
    throw_cannot_write(path, errno);
  }
  unfinished.finished();
}

void throw_cannot_write(const std::filesystem::path& path, int cause) {
  throw SystemError(fmt::format("cannot write {}: {}", path.string(), std::strerror(cause)));
}

}  // namespace commlens
