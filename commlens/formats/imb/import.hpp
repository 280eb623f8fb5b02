#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::imb {

/// The tables of the Intel MPI benchmarks (IMB-MPI1, -NBC, -P2P, -RMA), of any age, anywhere in a log
/// (docs/formats/mpi-benchmarks.md): one call per row.
Result<Trace> read(const std::filesystem::path& path);

/// True when the text has the title of a benchmark; it is searched beyond `head`.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::imb
