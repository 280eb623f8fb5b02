#pragma once
#include <string>

#include "commlens/base/table.hpp"
#include "commlens/report/documents/result_documents.hpp"

namespace commlens {

/// "13B, 64 sequences of 2,048 tokens in bf16, on 64 devices of dgx_h100 (NVIDIA H100 SXM), as nemo runs it".
/// `devices`: "64 devices", "up to 64 devices".
std::string searched_text(const SearchedOn& on, const std::string& devices);
std::string devices_text(std::int64_t ranks);

/// "2.19 s (2.05 s to 2.34 s)", of seconds.
std::string seconds_with_interval(const WithInterval& seconds);
std::string bytes_with_interval(const WithInterval& bytes);

/// Cells of a number and its interval.
std::vector<Cell> interval_cells(const WithInterval& number);
/// The same in whole bytes.
std::vector<Cell> memory_cells(const WithInterval& bytes);

/// Whether a layout is as fast as the first: "equal within the error", "slower".
std::string verdict_of(const FoundLayout& layout);

}  // namespace commlens
