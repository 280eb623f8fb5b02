#pragma once
#include <filesystem>
#include <string_view>

namespace commlens::formats::kineto {

/// Whether a file is a trace of torch.profiler (Kineto), .json or .json.gz, of one rank
/// (docs/formats/kineto.md). `schemaVersion` with one of its other members says so at once. Without it (in
/// files that other programs have sorted, filtered or merged, it comes after the events or is missing) the
/// categories of the events do: those that no other writer of Chrome traces uses. They are looked for in the
/// first 64 MiB.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::kineto
