#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/report/documents/result_documents.hpp"

namespace commlens {

/// Whether the file is what `search` or `simulate` writes as JSON, by its content.
bool names_result(const std::string& argument);

/// Reads such files.
Result<ResultDocuments> read_results(const std::vector<std::string>& files);

/// Removes those of the arguments that are such files, and returns them.
std::vector<std::string> take_results(std::vector<std::string>& arguments);

}  // namespace commlens
