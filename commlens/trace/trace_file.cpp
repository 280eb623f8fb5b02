#include "commlens/trace/trace_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/stream_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A folder under construction beside its final place, removed unless it got there.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::remove_all(path_, error);  // left by a killed process with our number
    if (!fs::create_directories(path_, error)) {
      throw SystemError(fmt::format("cannot make the folder {}: {}", path_.string(), error.message()));
    }
  }
  ~UnfinishedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    throw SystemError(
        fmt::format("cannot move {} to {}: {}", from.string(), to.string(), std::strerror(errno)));
  }
}

/// The folder itself, without links and trailing slashes, so that it can be renamed.
fs::path resolved(const fs::path& folder) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(folder), error);
  if (error) {
    throw SystemError(fmt::format("cannot write {}: {}", folder.string(), error.message()));
  }
  return path.has_filename() ? path : path.parent_path();
}

/// Throws unless `folder` is absent, empty, or a trace and nothing else.
void check_replaceable(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    return;
  }
  if (!fs::is_directory(folder, error)) {
    throw SystemError(fmt::format("{} is a file; a trace is a folder, choose another name", folder.string()));
  }
  if (fs::is_empty(folder, error)) {
    return;
  }
  if (!is_trace(folder)) {
    throw SystemError(
        fmt::format("{} holds something else than a commlens trace; choose another folder", folder.string()));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    if (name != k_manifest_name && name.extension() != ".bin") {
      throw SystemError(fmt::format("{} holds {} beside a trace; move it away or choose another folder",
                                    folder.string(), name.string()));
    }
  }
  if (error) {
    throw SystemError(fmt::format("cannot read {}: {}", folder.string(), error.message()));
  }
}

void write_files(const Trace& trace, const fs::path& folder) {
  std::vector<StreamEntry> entries;
  for (const RankStream& stream : trace.streams) {
    StreamEntry entry{fmt::format("stream-{}.bin", entries.size()), stream.ranks,
                      static_cast<std::int64_t>(stream.events.size())};
    write_stream_file(stream, static_cast<std::uint32_t>(entries.size()), folder / entry.file);
    entries.push_back(std::move(entry));
  }
  write_file_atomically(folder / k_manifest_name, manifest_text(trace, entries));
}

}  // namespace

void write_trace(const Trace& trace, const fs::path& folder) {
  const fs::path target = resolved(folder);
  check_replaceable(target);
  const std::string beside = fmt::format(".{}.{}", target.filename().string(), getpid());
  const UnfinishedFolder unfinished(target.parent_path() / (beside + ".tmp"));
  write_files(trace, unfinished.path());
  std::error_code error;
  if (!fs::exists(target, error) || fs::is_empty(target, error)) {
    rename_or_throw(unfinished.path(), target);
    return;
  }
  const UnfinishedFolder outdated(target.parent_path() / (beside + ".old"));
  const fs::path old_trace = outdated.path() / "trace";
  rename_or_throw(target, old_trace);
  if (std::rename(unfinished.path().c_str(), target.c_str()) != 0) {
    const int cause = errno;
    rename_or_throw(old_trace, target);
    throw SystemError(fmt::format("cannot write {}: {}", target.string(), std::strerror(cause)));
  }
}

Result<Trace> read_trace(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return failure(
        fmt::format("{}: {}", folder.string(),
                    fs::exists(folder, error) ? "not a folder, so no commlens trace" : "no such folder"));
  }
  if (!fs::exists(folder / k_manifest_name, error)) {
    return failure(fmt::format("{}: no commlens trace (it has no {})", folder.string(), k_manifest_name));
  }
  Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  if (!manifest) {
    return tl::unexpected(manifest.error());
  }
  Provenance& provenance = manifest->tables.provenance;
  for (const StreamEntry& entry : manifest->streams) {
    Result<RankStream> stream = read_stream_file(folder / entry.file, entry, *manifest, provenance);
    if (!stream) {
      return tl::unexpected(stream.error());
    }
    manifest->tables.streams.push_back(std::move(*stream));
  }
  return std::move(manifest->tables);
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
