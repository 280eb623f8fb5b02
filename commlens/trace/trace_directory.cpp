#include "commlens/trace/trace_directory.hpp"

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/base/unfinished.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A new directory in `parent`. Another process, perhaps on another machine, may have our number.
fs::path made_directory(const fs::path& parent, const std::string& name) {
  std::error_code error;
  fs::create_directories(parent, error);
  for (int other = 0; !error; ++other) {
    fs::path path = parent / fmt::format("{}.{}-{}", name, getpid(), other);
    if (fs::create_directory(path, error)) {
      return path;
    }
  }
  throw SystemError(fmt::format("cannot make a directory in {}: {}", parent.string(), error.message()));
}

/// A directory under construction beside its final place, removed unless it got there.
class UnfinishedDirectory {
 public:
  UnfinishedDirectory(const fs::path& parent, const std::string& name)
      : directory_(made_directory(parent, name)) {}
  const fs::path& path() const { return directory_.path(); }
  /// Fills it; where that fails, the error names `target`.
  void fill(const std::function<void(const fs::path&)>& fill_directory, const fs::path& target) const {
    directory_.write_as(target, [&] { fill_directory(path()); });
  }
  /// Moves it to its final place, where there is nothing or an empty directory.
  bool move_to(const fs::path& place) {
    if (std::rename(path().c_str(), place.c_str()) != 0) {
      return false;
    }
    directory_.finished();
    return true;
  }

 private:
  Unfinished directory_;
};

/// The directory itself, without links and trailing slashes, so that it can be renamed.
fs::path resolved(const fs::path& directory) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(directory), error);
  if (error) {
    throw SystemError(fmt::format("cannot write {}: {}", directory.string(), error.message()));
  }
  return path.has_filename() ? path : path.parent_path();
}

/// Whether a file has the name that create_recording gives to a rank's tables.
bool is_rank_tables(std::string_view name) { return name.starts_with("rank-") && name.ends_with(".jsonl"); }

}  // namespace

Result<void> check_trace_target(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) {
    return {};
  }
  if (!fs::is_directory(directory, error)) {
    return failure(
        fmt::format("{}: this is a file; a trace is a directory, choose another name", directory.string()));
  }
  if (fs::is_empty(directory, error)) {
    return {};
  }
  if (!is_trace(directory)) {
    return failure(
        fmt::format("{}: the directory holds something other than a commlens trace; choose another one",
                    directory.string()));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const fs::path name = entry.path().filename();
    if (name != k_manifest_name && name.extension() != ".bin" && !is_rank_tables(name.string())) {
      return failure(
          fmt::format("{}: the directory holds {} beside a trace; move it away or choose another one",
                      directory.string(), name.string()));
    }
  }
  if (error) {
    throw SystemError(fmt::format("cannot read {}: {}", directory.string(), error.message()));
  }
  return {};
}

void replace_trace_directory(const fs::path& directory, const std::function<void(const fs::path&)>& fill) {
  const fs::path target = resolved(directory);
  if (const Result<void> replaceable = check_trace_target(target); !replaceable) {
    throw SystemError(replaceable.error().message);
  }
  UnfinishedDirectory unfinished(target.parent_path(), fmt::format(".{}.tmp", target.filename().string()));
  unfinished.fill(fill, directory);
  std::error_code error;
  if (fs::exists(target, error) && !fs::is_empty(target, error)) {
    replace_directory(target, unfinished.path());
  } else if (!unfinished.move_to(target)) {
    throw_cannot_write(target, errno);
  }
}

// In one step a rename puts a directory in the place of nothing or of an empty one, and fails before any
// other.
bool place_trace_directory(const fs::path& directory, const std::function<void(const fs::path&)>& fill) {
  const fs::path target = resolved(directory);
  UnfinishedDirectory unfinished(target.parent_path(), fmt::format(".{}.tmp", target.filename().string()));
  unfinished.fill(fill, directory);
  if (unfinished.move_to(target)) {
    return true;
  }
  const int cause = errno;
  if (cause != EEXIST && cause != ENOTEMPTY && cause != ENOTDIR) {
    throw_cannot_write(target, cause);
  }
  return false;
}

fs::path claim_trace_directory(const fs::path& directory, const std::function<void(const fs::path&)>& fill) {
  const fs::path first = resolved(directory);
  fs::path target = first;
  for (int number = 2; !place_trace_directory(target, fill); ++number) {
    const Result<void> replaceable = is_trace(target) ? Result<void>() : check_trace_target(target);
    if (!replaceable) {
      throw SystemError(replaceable.error().message);
    }
    target = fmt::format("{}-{}", first.string(), number);
  }
  return target;
}

bool is_trace(const fs::path& path) {
  constexpr std::size_t start = 64;  // the schema is the first key we write
  std::FILE* const file = std::fopen((path / k_manifest_name).c_str(), "rb");
  if (file == nullptr) {
    return false;
  }
  std::string head(start, '\0');
  head.resize(std::fread(head.data(), 1, start, file));
  std::fclose(file);
  return head.find("\"commlens.trace/") != std::string::npos;
}

}  // namespace commlens
