#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One foreign format. `head` is the first 64 KiB of the (decompressed) file.
struct Importer {
  std::string_view name;
  bool (*sniff)(const std::filesystem::path& path, std::string_view head);
  Result<Trace> (*read)(const std::filesystem::path& path);
};

/// The one list, in the order in which formats are tried.
std::span<const Importer> importers();

/// "calls-jsonl, calls-csv, …", for messages.
std::string importer_names();

/// Reads a native trace folder or any importable file. "-" is standard input; it and other pipes are kept in
/// a file in TMPDIR for as long as they are read, calls JSON Lines are not. Throws SystemError where that
/// cannot be written.
/// Of a file that ends within a record, `cut_off` says where (cut_off_text); else it is emptied.
Result<Trace> import_any(const std::filesystem::path& path, std::string* cut_off = nullptr);

}  // namespace commlens
