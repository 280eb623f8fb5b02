#include <algorithm>
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

/// Whether every name in a folder is one in another, folders within included.
bool has_no_other_names(const fs::path& old, const fs::path& fresh) {
  std::error_code status;
  return std::all_of(fs::recursive_directory_iterator(old, status), fs::recursive_directory_iterator(),
                     [&](const fs::directory_entry& entry) {
                       std::error_code missing;
                       const fs::file_status there =
                           fs::status(fresh / entry.path().lexically_relative(old), missing);
                       return fs::exists(there) && fs::is_directory(there) == entry.is_directory(missing);
                     });
}

/// Whether what was written at `fresh` may take the place of what stands at `target`: nothing; a regular file
/// for a file; for a folder one in which nothing stands but files of the names that are written now.
Result<void> check_replaceable(const fs::path& target, const fs::path& fresh) {
  std::error_code status;
  const bool is_folder = fs::is_directory(fresh, status);
  const bool is_free = is_folder ? fs::is_directory(target, status) && has_no_other_names(target, fresh)
                                 : fs::is_regular_file(target, status);
  if (fs::exists(target, status) && !is_free) {
    return failure(
        fmt::format("{} stands in the way of the {} that is written there; remove it or choose "
                    "another -o",
                    target.string(), is_folder ? "folder" : "file"));
  }
  return {};
}

/// Both are files, or both are folders; a folder that is there goes.
void replace(const fs::path& target, const fs::path& fresh) {
  std::error_code status;
  if (fs::is_directory(target, status)) {
    const UnfinishedExport old(target.parent_path() / (target.filename().string() + ".old"));
    move_to(target, old.path());
    move_to(fresh, target);
    return;
  }
  move_to(fresh, target);
}

Result<void> write_as_file(const Exporter& exporter, const Trace& trace, const CallSelection& selection,
                           const fs::path& target) {
  const UnfinishedExport unfinished(target);
  if (Result<void> written = exporter.file(trace, selection, unfinished.path()); !written) {
    return written;
  }
  if (Result<void> checked = check_replaceable(target, unfinished.path()); !checked) {
    return checked;
  }
  replace(target, unfinished.path());
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
  const UnfinishedExport unfinished(target);
  std::error_code status;
  if (!fs::create_directory(unfinished.path(), status)) {
    throw_cannot_write(target, status.value());
  }
  if (Result<void> written = exporter.folder(trace, selection, unfinished.path()); !written) {
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
  const bool is_folder = exporter.folder != nullptr;
  if (destination.empty() || destination == "-") {
    return failure(
        fmt::format("{} is written as a {}; name it with -o", exporter.name, is_folder ? "folder" : "file"));
  }
  fs::path target = fs::path(destination).lexically_normal();
  if (!target.has_filename()) {
    target = target.parent_path();  // "out/"
  }
  if (target.extension() == ".gz") {
    return failure(fmt::format("{} is written as a {}, which is not compressed; name it without .gz",
                               exporter.name, is_folder ? "folder" : "file"));
  }
  return is_folder ? write_as_folder(exporter, trace, selection, target)
                   : write_as_file(exporter, trace, selection, target);
}

}  // namespace commlens
