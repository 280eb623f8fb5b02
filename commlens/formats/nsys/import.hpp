#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nsys {

/// A report of Nsight Systems as `nsys export --type sqlite` writes it (docs/formats/nsys.md). Fails on
/// what is no report, and on damaged ones in bounded time and memory (SqliteDatabase::open).
Result<Trace> read(const std::filesystem::path& path);

/// True for every SQLite file that is no export of ours; `read` says what it lacks.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::nsys
