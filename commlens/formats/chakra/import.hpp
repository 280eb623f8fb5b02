#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::chakra {

/// A Chakra execution trace (docs/formats/chakra.md): the graph of one rank, .gz too. Calls are the nodes
/// that a simulator would run as communication; what a CPU only launched is counted as skipped.
Result<Trace> read(const std::filesystem::path& path);

/// True when the file begins with the head of a Chakra trace and a node.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::chakra
