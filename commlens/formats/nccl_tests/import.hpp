#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nccl_tests {

/// The tables of nccl-tests and rccl-tests, of any age, anywhere in a log (docs/formats/nccl-tests.md): for
/// each row a call out of place and one in place, with the printed time.
Result<Trace> read(const std::filesystem::path& path);

/// The device of rank 0 in a log's list of devices ("NVIDIA H100 80GB HBM3"); empty: there is no list.
std::string device_named(std::string_view log);

/// True when the text has a table's header; it is searched beyond `head`.
bool sniff(const std::filesystem::path& path, std::string_view head);

/// The same of the JSON that nccl-tests writes with -J FILE.
Result<Trace> read_json(const std::filesystem::path& path);
bool sniff_json(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::nccl_tests
