#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/formats/exporters/exporters.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A name beside `target` for what is not finished; removed at the end, whatever it is by then.
class UnfinishedExport {
 public:
  explicit UnfinishedExport(const fs::path& target) : path_(target) {
    path_ += fmt::format(".{}.tmp", getpid());
    std::error_code ignored;
    fs::remove_all(path_, ignored);  // of a process of the same number that was killed
  }
  ~UnfinishedExport() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  UnfinishedExport(const UnfinishedExport&) = delete;
  UnfinishedExport& operator=(const UnfinishedExport&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void move_to(const fs::path& from, const fs::path& to) {
  std::error_code status;
  fs::rename(from, to, status);
  if (status) {
    throw_cannot_write(to, status.value());
  }
}

/// Whether an export may take the place of what stands at `path`: nothing, or an empty folder for a folder; a
/// regular file for a file.
Result<void> check_free(const fs::path& path, bool is_folder) {
  std::error_code status;
  const bool exists = fs::exists(path, status);
  const bool is_free = is_folder ? fs::is_directory(path, status) && fs::is_empty(path, status)
                                 : fs::is_regular_file(path, status);
  if (exists && !is_free) {
    return failure(
        fmt::format("{} stands in the way of the {} that is written there; remove it or choose "
                    "another -o",
                    path.string(), is_folder ? "folder" : "file"));
  }
  return {};
}

Result<void> write_as_file(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                           const fs::path& target) {
  if (const Result<void> is_free = check_free(target, false); !is_free) {
    return is_free;
  }
  const UnfinishedExport unfinished(target);
  if (Result<void> written = exporter.file(trace, selection, unfinished.path()); !written) {
    return written;
  }
  move_to(unfinished.path(), target);
  return {};
}

/// The names in a filled folder, and where they go when the folder is spread beside an anchor.
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

Result<void> write_as_folder(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                             const fs::path& target) {
  const bool is_spread =
      !exporter.anchor.empty() && target.extension() == fs::path(exporter.anchor).extension();
  if (!is_spread) {
    if (const Result<void> is_free = check_free(target, true); !is_free) {
      return is_free;
    }
  }
  const UnfinishedExport unfinished(target);
  std::error_code status;
  if (!fs::create_directory(unfinished.path(), status)) {
    throw_cannot_write(target, status.value());
  }
  if (Result<void> written = exporter.folder(trace, selection, unfinished.path()); !written) {
    return written;
  }
  if (!is_spread) {
    move_to(unfinished.path(), target);
    return {};
  }
  const auto moves = spread(exporter, unfinished.path(), target);
  for (const auto& [from, to] : moves) {
    if (const Result<void> is_free = check_free(to, fs::is_directory(from)); !is_free) {
      return is_free;
    }
  }
  for (const auto& [from, to] : moves) {
    move_to(from, to);
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
  const bool is_folder = exporter.folder != nullptr;
  if (destination.empty() || destination == "-") {
    return failure(
        fmt::format("{} is written as a {}; name it with -o", exporter.name, is_folder ? "folder" : "file"));
  }
  fs::path target = fs::path(destination).lexically_normal();
  if (!target.has_filename()) {
    target = target.parent_path();  // "out/"
  }
  return is_folder ? write_as_folder(exporter, trace, selection, target)
                   : write_as_file(exporter, trace, selection, target);
}

}  // namespace commlens
