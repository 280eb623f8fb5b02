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
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Why no file of that name can be made in a folder, if the choice of the place is to blame.
std::optional<std::string> obstacle_in(const fs::path& folder, const std::string& name) {
  constexpr std::array place_is_wrong = {EACCES, EPERM, EROFS, ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP, EINVAL};
  if (const std::optional<fs::path> made = try_new_file_beside(folder / name)) {
    const Unfinished probe(*made);
    return std::nullopt;
  }
  const int cause = errno;
  return std::find(place_is_wrong.begin(), place_is_wrong.end(), cause) == place_is_wrong.end()
             ? std::nullopt
             : std::optional(
                   fmt::format("nothing can be made in {} ({})", folder.string(), std::strerror(cause)));
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

bool starts_with(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && rest != path.end();
}

/// Whether a name, or what it is a link to, stands somewhere below a folder.
bool is_in(const fs::path& path, const fs::path& folder) {
  const fs::path outer = resolved_place(folder);
  return starts_with(resolved_place(path), outer) ||
         starts_with(resolved_place(folder_of(path)) / path.filename(), outer);
}

/// Whether a file has a second name in a folder.
bool has_name_in(const fs::path& folder, const fs::path& file) {
  std::error_code status;
  const std::uintmax_t names = fs::hard_link_count(file, status);
  if (status || names < 2) {
    return false;
  }
  for (fs::directory_iterator entry(folder, status); !status && entry != fs::directory_iterator();
       entry.increment(status)) {
    std::error_code unknown;
    if (fs::equivalent(entry->path(), file, unknown)) {
      return true;
    }
  }
  return false;
}

/// Nobody writes into a pipe from which we read until our own result is there: we would wait for ourselves.
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
    return failure(fmt::format("{} {}: is a folder; give the name of a file", flag, path));
  }
  if (is_appended_to) {
    return place_unless(
        flag, path, access(file.c_str(), W_OK) == 0 ? std::nullopt : std::optional("it cannot be written"));
  }
  const fs::path folder = folder_of(file);
  if (!fs::exists(folder, status)) {
    return failure(fmt::format("{} {}: there is no folder {}; make it, or choose another place", flag, path,
                               folder.string()));
  }
  return place_unless(flag, path, obstacle_in(folder, file.filename().string()));
}

Result<void> check_folder_place(const std::string& flag, const std::string& path) {
  fs::path folder = fs::path(path).lexically_normal();
  folder = folder.has_filename() ? folder : folder.parent_path();  // "out/"
  if (folder.empty()) {
    return failure(fmt::format("{}: give the name of a folder", flag));
  }
  folder = write_place(folder).path;
  fs::path above = folder_of(folder);
  std::error_code status;
  while (!fs::exists(above, status) && above != folder_of(above)) {
    above = folder_of(above);
  }
  return place_unless(flag, path, obstacle_in(above, folder.filename().string()));
}

Result<void> check_apart(const std::string& flag, const std::string& path,
                         const std::vector<std::string>& inputs) {
  std::error_code status;
  if (path == "-") {
    return {};
  }
  if (fs::exists(path, status) && fs::is_other(path, status)) {
    return fs::is_fifo(path, status) ? check_pipe(flag, path, inputs)
                                     : Result<void>();  // a device keeps nothing that could be lost
  }
  for (const std::string& input : inputs) {
    if (input == "-" || !fs::exists(input, status)) {
      continue;  // a preset, or what the reader refuses
    }
    const bool is_folder = fs::is_directory(input, status);
    if (is_folder && !is_trace(input)) {
      continue;
    }
    if (fs::equivalent(path, input, status)) {
      return failure(fmt::format("{} {}: that is the {} to be read; choose another name", flag, path,
                                 is_folder ? "trace" : "file"));
    }
    if (is_folder && (is_in(path, input) || has_name_in(input, path))) {
      return failure(fmt::format("{} {}: that is part of the trace {} to be read; choose another place", flag,
                                 path, input));
    }
    if (fs::is_directory(path, status) && is_in(input, path)) {
      return failure(fmt::format("{} {}: {}, which is read, stands in that folder; choose another place",
                                 flag, path, input));
    }
  }
  return {};
}

Result<void> check_output_place(const std::string& path, const std::vector<std::string>& inputs) {
  return check_file_place("-o", path).and_then([&] { return check_apart("-o", path, inputs); });
}

}  // namespace commlens
