#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// Files of other tools that together describe one job.
struct ImportRequest {
  std::vector<std::string> files;
  std::string directory;  // of the native trace; a trace there is replaced
  Events events;
  /// One file is the profile of a rank, with times: ranks that no file has do the same, which the logs among
  /// the files must show (formats/join_profile.hpp).
  bool assume_world = false;
};

/// The result of an import.
struct ImportResult {
  std::int64_t calls = 0;  // of all ranks
  std::int64_t ranks = 0;
  /// For several files: how many calls have counterparts on the other ranks.
  struct Matched {
    std::int64_t collectives = 0;
    std::int64_t messages = 0;
    std::int64_t incomplete = 0;  // lack the call of a rank
  };
  std::optional<Matched> matched;               // absent: of one file, or nothing to match
  std::map<std::string, std::int64_t> skipped;  // reason to count
  std::map<std::string, std::int64_t> assumed;
};

/// Reads the files, merges them into one trace and writes it; the profile of one rank and the log of its job
/// are joined. Fails if no importer recognises a file or the output directory is not usable. Throws
/// SystemError.
Result<ImportResult> import_files(const ImportRequest& request);

}  // namespace commlens
