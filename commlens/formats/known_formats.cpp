#include "commlens/formats/known_formats.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view k_no_reader =
    "for which there is no reader; record the run with commlens record, or with Score-P (OTF2)";
constexpr std::string_view k_our_export = "an export of commlens; name the trace that it was made from";

/// A format that is recognised by its name's ending, by its first bytes, or by both where both are set. In
/// `what`, {0} is k_no_reader.
struct KnownFormat {
  std::string_view ending;
  std::string_view start;
  std::string_view what;
};

constexpr std::array k_known = {
    KnownFormat{
        ".nsys-rep", "",
        "a report of Nsight Systems; make it a database with nsys export --type sqlite, and name that"},
    KnownFormat{
        ".qdrep", "",
        "a report of Nsight Systems; make it a database with nsys export --type sqlite, and name that"},
    KnownFormat{
        ".ncu-rep", "",
        "a report of Nsight Compute, which is about single kernels; profile the run with nsys, and name "
        "what nsys export --type sqlite makes of its report"},
    KnownFormat{".pftrace", "\n",
                "a Perfetto trace in protobuf; name the file of the profiler it was made from"},
    KnownFormat{".perfetto-trace", "\n",
                "a Perfetto trace in protobuf; name the file of the profiler it was made from"},
    KnownFormat{
        ".cubex", "",
        "a Cube profile, which holds sums only; have Score-P trace (SCOREP_ENABLE_TRACING=true), and name "
        "its traces.otf2"},
    KnownFormat{".evt", "\x03", "a part of an OTF2 archive; name the archive's .otf2 file"},
    KnownFormat{".def", "\x03", "a part of an OTF2 archive; name the archive's .otf2 file"},
    KnownFormat{"", "\x28\xb5\x2f\xfd"sv,
                "compressed with zstd; read it through a pipe: zstdcat FILE | commlens summary -"},
    KnownFormat{"",
                "\xfd"
                "7zXZ\0"sv,
                "compressed with xz; read it through a pipe: xzcat FILE | commlens summary -"},
    KnownFormat{"", "BZh", "compressed with bzip2; read it through a pipe: bzcat FILE | commlens summary -"},
    KnownFormat{"", "\x04\x22\x4d\x18"sv,
                "compressed with lz4; read it through a pipe: lz4cat FILE | commlens summary -"},
    KnownFormat{"", "PK\x03\x04", "a zip archive; unpack it and name the file in it"},
    KnownFormat{"", "#Paraver", "a Paraver trace, {0}"},
    KnownFormat{"", "CLOG-0", "an MPE log (CLOG), {0}"},
    KnownFormat{"",
                "\x7f"
                "ELF",
                "a program; commlens record -- PROGRAM records what it sends"},
    KnownFormat{"", "SQLite format 3", k_our_export},  // databases of others have an importer
    KnownFormat{"", "num_ranks ", k_our_export},
    KnownFormat{"", "comm_type,comm_group,comm_group_size,", k_our_export},
};

bool is_of(const KnownFormat& format, std::string_view name, std::string_view head) {
  return name.ends_with(format.ending) && head.starts_with(format.start);
}

bool is_json(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
}

}  // namespace

std::string unreadable_format(const std::filesystem::path& path, std::string_view head) {
  const std::string name = path.filename().string();
  const auto* const known = std::find_if(
      k_known.begin(), k_known.end(), [&](const KnownFormat& format) { return is_of(format, name, head); });
  if (known != k_known.end()) {
    return fmt::format(fmt::runtime(known->what), k_no_reader);
  }
  constexpr std::size_t tar_magic = 257;
  if (head.size() > tar_magic && head.substr(tar_magic).starts_with("ustar")) {
    return "a tar archive; unpack it and name the file in it";
  }
  if (is_json(head) && head.find(R"("written_by":"commlens")") != std::string_view::npos) {
    return std::string(k_our_export);
  }
  if (is_json(head) && head.find("\"traceEvents\"") != std::string_view::npos) {
    return "a Chrome trace, but not of PyTorch's profiler (no event of its categories, such as cpu_op, "
           "kernel or "
           "cuda_runtime); name the profiler's own file";
  }
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return "a Python pickle, but no dump of PyTorch's flight recorder, the only one that holds calls";
  }
  return "";
}

std::string importable_files_text(const std::filesystem::path& directory) {
  constexpr std::size_t most_looked_at = 8;
  constexpr std::size_t head_size = std::size_t{64} << 10;
  std::vector<std::filesystem::path> files;
  std::error_code status;
  for (std::filesystem::directory_iterator at(directory, status);
       !status && at != std::filesystem::directory_iterator(); at.increment(status)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) {
      files.push_back(at->path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::filesystem::path> readable;
  std::set<std::string_view> formats;
  for (std::size_t at = 0; at < std::min(files.size(), most_looked_at); ++at) {
    const Result<std::string> head = read_head(files[at], head_size);
    const auto takes = [&](const Importer& importer) { return head && importer.sniff(files[at], *head); };
    const auto found = std::find_if(importers().begin(), importers().end(), takes);
    if (found != importers().end()) {
      readable.push_back(files[at]);
      formats.insert(found->name);
    }
  }
  if (readable.empty()) {
    return "";
  }
  const std::string first = readable.front().string();
  const bool is_one = readable.size() == 1;
  return fmt::format("; it holds {} ({}): {}", is_one ? "a file that can be read" : "files that can be read",
                     fmt::join(formats, ", "),
                     is_one ? fmt::format("name {}", first)
                            : fmt::format("name one, such as {}, or make a trace of the files of a job with "
                                          "commlens import FILE… -o DIR",
                                          first));
}

}  // namespace commlens::formats
