#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::pytorch_et {

/// An execution trace of PyTorch (docs/formats/pytorch-et.md), schema 1.0.1 to 1.1.1, .gz too: the calls of
/// one rank in issue order, without times.
Result<Trace> read(const std::filesystem::path& path);

/// True when the text is a JSON object with nodes that have an "rf_id" and a "fw_parent".
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::pytorch_et
