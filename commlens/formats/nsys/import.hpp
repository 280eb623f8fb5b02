#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/isolated.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nsys {

/// A report of Nsight Systems as `nsys export --type sqlite` writes it (docs/formats/nsys.md). Read in a
/// process of its own.
Result<Trace> read(const std::filesystem::path& path);

/// What that process does.
Result<void> read_tables(const std::filesystem::path& path, const RecordSink& sink);

/// True for every SQLite file that is no export of ours; `read` says what it lacks.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::nsys
