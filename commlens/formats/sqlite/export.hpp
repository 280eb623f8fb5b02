#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::sqlite {

/// A new SQLite file with the tables and views of docs/formats/sqlite.md. Throws SystemError when it cannot
/// be written.
Result<void> write(const Trace& trace, const CallSelection& selection, const std::filesystem::path& path);

}  // namespace commlens::formats::sqlite
