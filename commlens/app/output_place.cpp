#include "commlens/app/output_place.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/unfinished.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// The error if a file of that name cannot be created in a directory because the path was chosen badly.
std::optional<std::string> obstacle_in(const fs::path& directory, const std::string& name) {
  constexpr std::array place_is_wrong = {EACCES, EPERM, EROFS, ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP, EINVAL};
  if (const std::optional<fs::path> made = try_new_file_beside(directory / name)) {
    const Unfinished probe(*made);
    return std::nullopt;
  }
  const int cause = errno;
  return std::find(place_is_wrong.begin(), place_is_wrong.end(), cause) == place_is_wrong.end()
             ? std::nullopt
             : std::optional(
                   fmt::format("nothing can be made in {} ({})", directory.string(), std::strerror(cause)));
}

Result<void> place_unless(const std::string& flag, const std::string& path,
                          const std::optional<std::string>& obstacle) {
  return obstacle ? failure(fmt::format("{} {}: {}; choose another place", flag, path, *obstacle))
                  : Result<void>();
}

fs::path resolved_place(const fs::path& path) {
  std::error_code status;
  return fs::weakly_canonical(fs::absolute(path, status), status);
}

bool starts_with(const fs::path& path, const fs::path& directory) {
  const auto [end, rest] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end() && rest != path.end();
}

/// Whether a path, or the target of its links, is below a directory.
bool is_in(const fs::path& path, const fs::path& directory) {
  const fs::path outer = resolved_place(directory);
  return starts_with(resolved_place(path), outer) ||
         starts_with(resolved_place(directory_of(path)) / path.filename(), outer);
}

/// Whether a file has a second name (hard link) in a directory.
bool has_name_in(const fs::path& directory, const fs::path& file) {
  std::error_code status;
  const std::uintmax_t names = fs::hard_link_count(file, status);
  if (status || names < 2) {
    return false;
  }
  for (fs::directory_iterator entry(directory, status); !status && entry != fs::directory_iterator();
       entry.increment(status)) {
    std::error_code unknown;
    if (fs::equivalent(entry->path(), file, unknown)) {
      return true;
    }
  }
  return false;
}

/// A pipe that is both input and output would deadlock: we would wait for our own output.
Result<void> check_pipe(const std::string& flag, const std::string& path,
                        const std::vector<std::string>& inputs) {
  struct stat own = {};
  const bool is_known = stat(path.c_str(), &own) == 0;
  for (const std::string& input : inputs) {
    struct stat read = {};  // fs::equivalent does not compare pipes
    if (is_known && stat(input.c_str(), &read) == 0 && own.st_dev == read.st_dev &&
        own.st_ino == read.st_ino) {
      return failure(fmt::format("{} {}: that is the pipe to be read; choose another name", flag, path));
    }
  }
  return {};
}

}  // namespace

Result<void> check_file_place(const std::string& flag, const std::string& path) {
  if (path == "-") {
    return {};
  }
  std::error_code status;
  const auto [file, is_appended_to] = write_place(path);
  if (!file.has_filename() || fs::is_directory(file, status)) {
    return failure(fmt::format("{} {}: is a directory; give the name of a file", flag, path));
  }
  if (is_appended_to) {
    return place_unless(
        flag, path, access(file.c_str(), W_OK) == 0 ? std::nullopt : std::optional("it cannot be written"));
  }
  const fs::path directory = directory_of(file);
  if (!fs::exists(directory, status)) {
    return failure(fmt::format("{} {}: there is no directory {}; make it, or choose another place", flag,
                               path, directory.string()));
  }
  return place_unless(flag, path, obstacle_in(directory, file.filename().string()));
}

Result<void> check_directory_place(const std::string& flag, const std::string& path) {
  fs::path directory = fs::path(path).lexically_normal();
  directory = directory.has_filename() ? directory : directory.parent_path();  // "out/"
  if (directory.empty()) {
    return failure(fmt::format("{}: give the name of a directory", flag));
  }
  directory = write_place(directory).path;
  fs::path above = directory_of(directory);
  std::error_code status;
  while (!fs::exists(above, status) && above != directory_of(above)) {
    above = directory_of(above);
  }
  return place_unless(flag, path, obstacle_in(above, directory.filename().string()));
}

Result<void> check_apart(const std::string& flag, const std::string& path,
                         const std::vector<std::string>& inputs) {
  std::error_code status;
  if (path == "-") {
    return {};
  }
  if (fs::exists(path, status) && fs::is_other(path, status)) {
    return fs::is_fifo(path, status) ? check_pipe(flag, path, inputs)
                                     : Result<void>();  // a device has no content to lose
  }
  for (const std::string& input : inputs) {
    if (input == "-" || !fs::exists(input, status)) {
      continue;  // a preset, or a path that the reader refuses
    }
    const bool is_directory = fs::is_directory(input, status);
    if (is_directory && !is_trace(input)) {
      continue;
    }
    if (fs::equivalent(path, input, status)) {
      return failure(fmt::format("{} {}: that is the {} to be read; choose another name", flag, path,
                                 is_directory ? "trace" : "file"));
    }
    if (is_directory && (is_in(path, input) || has_name_in(input, path))) {
      return failure(fmt::format("{} {}: that is part of the trace {} to be read; choose another place", flag,
                                 path, input));
    }
    if (fs::is_directory(path, status) && is_in(input, path)) {
      return failure(fmt::format("{} {}: {}, which is read, is in that directory; choose another place", flag,
                                 path, input));
    }
  }
  return {};
}

Result<void> check_trace_place(const std::string& flag, const std::string& path,
                               const std::vector<std::string>& inputs) {
  return check_trace_target(path)
      .map_error([&](const Error& error) { return Error{fmt::format("{} {}", flag, error.message)}; })
      .and_then([&] { return check_directory_place(flag, path); })
      .and_then([&] { return check_apart(flag, path, inputs); });
}

Result<void> check_output_place(const std::string& path, const std::vector<std::string>& inputs) {
  return check_file_place("-o", path).and_then([&] { return check_apart("-o", path, inputs); });
}

}  // namespace commlens
