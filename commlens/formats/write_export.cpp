#include "commlens/formats/write_export.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/base/unfinished.hpp"
#include "commlens/formats/io/write_stream.hpp"

namespace commlens::formats {
namespace {

namespace fs = std::filesystem;

void move_to(const fs::path& from, const fs::path& to) {
  std::error_code status;
  fs::rename(from, to, status);
  if (status) {
    throw_cannot_write(to, status.value());
  }
}

/// Whether every name in a directory is one in another, directories within included. Not where a directory
/// cannot be read.
bool has_no_other_names(const fs::path& old, const fs::path& fresh) {
  std::error_code status;
  fs::recursive_directory_iterator at(old, status);
  while (!status && at != fs::recursive_directory_iterator()) {
    std::error_code missing;
    const fs::file_status there = fs::status(fresh / at->path().lexically_relative(old), missing);
    if (!fs::exists(there) || fs::is_directory(there) != at->is_directory(missing)) {
      return false;
    }
    at.increment(status);
  }
  return !status;
}

/// Whether what was written at `fresh` may replace what is at `target`: nothing; a regular file
/// for a file; for a directory one that holds nothing but files of the names that are written now.
Result<void> check_replaceable(const fs::path& target, const fs::path& fresh) {
  std::error_code status;
  const bool is_directory = fs::is_directory(fresh, status);
  const bool is_free = is_directory ? fs::is_directory(target, status) && has_no_other_names(target, fresh)
                                    : fs::is_regular_file(target, status);
  if (fs::exists(target, status) && !is_free) {
    return failure(
        fmt::format("{} is in the way of the {} that is written there; remove it or choose "
                    "another -o",
                    target.string(), is_directory ? "directory" : "file"));
  }
  return {};
}

/// Both are files, or both are directories; a directory that is there goes.
void replace(const fs::path& target, const fs::path& fresh) {
  std::error_code status;
  if (fs::is_directory(target, status)) {
    replace_directory(target, fresh);
  } else {
    move_to(fresh, target);
  }
}

/// Runs an exporter's `write`; what it says of the unfinished name, it says of `target`.
Result<void> write_into(const Unfinished& unfinished, const fs::path& target,
                        const std::function<Result<void>()>& write) {
  Result<void> written;
  unfinished.write_as(target, [&] { written = write(); });
  return written.map_error([&](const Error& error) {
    return Error{replaced(error.message, unfinished.path().string(), target.string())};
  });
}

Result<void> write_as_file(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                           const fs::path& target) {
  const Unfinished unfinished(new_file_beside(target));
  fs::remove(unfinished.path());  // an exporter makes its file; the name is nobody else's
  Result<void> written =
      write_into(unfinished, target, [&] { return exporter.file(trace, selection, unfinished.path()); });
  if (!written) {
    return written;
  }
  if (Result<void> checked = check_replaceable(target, unfinished.path()); !checked) {
    return checked;
  }
  replace(target, unfinished.path());
  return {};
}

/// The names in a filled directory, and where they go when the directory is spread beside an anchor.
std::vector<std::pair<fs::path, fs::path>> spread(const Exporter& exporter, const fs::path& filled,
                                                  const fs::path& target) {
  const std::string stem = fs::path(exporter.anchor).stem().string();
  std::vector<std::pair<fs::path, fs::path>> moves;
  for (const fs::directory_entry& entry : fs::directory_iterator(filled)) {
    const std::string name = entry.path().filename().string();
    const std::string ending = name.starts_with(stem) ? name.substr(stem.size()) : "." + name;
    moves.emplace_back(entry.path(), target.parent_path() / (target.stem().string() + ending));
  }
  return moves;
}

Result<void> write_as_directory(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                                const fs::path& target) {
  const Unfinished unfinished(new_directory_beside(target));
  Result<void> written =
      write_into(unfinished, target, [&] { return exporter.directory(trace, selection, unfinished.path()); });
  if (!written) {
    return written;
  }
  const bool is_spread =
      !exporter.anchor.empty() && target.extension() == fs::path(exporter.anchor).extension();
  const auto moves = is_spread ? spread(exporter, unfinished.path(), target)
                               : std::vector<std::pair<fs::path, fs::path>>{{unfinished.path(), target}};
  for (const auto& [from, to] : moves) {
    if (Result<void> checked = check_replaceable(to, from); !checked) {
      return checked;
    }
  }
  for (const auto& [from, to] : moves) {
    replace(to, from);
  }
  return {};
}

}  // namespace

Result<void> write_export(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                          const std::string& destination) {
  if (exporter.stream != nullptr) {
    return try_write_stream(destination,
                            [&](const TextSink& sink) { return exporter.stream(trace, selection, sink); });
  }
  const bool is_directory = exporter.directory != nullptr;
  if (destination.empty() || destination == "-") {
    return failure(fmt::format("{} is written as a {}; name it with -o", exporter.name,
                               is_directory ? "directory" : "file"));
  }
  fs::path target = fs::path(destination).lexically_normal();
  if (!target.has_filename()) {
    target = target.parent_path();  // "out/"
  }
  if (target.extension() == ".gz") {
    return failure(fmt::format("{} is written as a {}, which is not compressed; name it without .gz",
                               exporter.name, is_directory ? "directory" : "file"));
  }
  target = write_place(target).path;
  return is_directory ? write_as_directory(exporter, trace, selection, target)
                      : write_as_file(exporter, trace, selection, target);
}

}  // namespace commlens::formats
