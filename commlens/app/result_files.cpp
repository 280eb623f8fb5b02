#include "commlens/app/result_files.hpp"

#include <algorithm>
#include <filesystem>

#include "commlens/base/file.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_head_bytes = std::size_t{64} << 10;
constexpr std::int64_t k_most_result_bytes = std::int64_t{64} << 20;

}  // namespace

bool names_result(const std::string& argument) {
  std::error_code status;
  if (!std::filesystem::is_regular_file(argument, status)) {
    return false;
  }
  const Result<std::string> head = formats::read_head(argument, k_head_bytes);
  return head && is_result_document(*head);
}

Result<ResultDocuments> read_results(const std::vector<std::string>& files) {
  ResultDocuments documents;
  for (const std::string& file : files) {
    const Result<void> done =
        read_text_file(file, k_most_result_bytes).and_then([&](const std::string& content) {
          return read_result_document(file, content, documents);
        });
    if (!done) {
      return tl::unexpected(done.error());
    }
  }
  return documents;
}

std::vector<std::string> take_results(std::vector<std::string>& arguments) {
  const auto first =
      std::stable_partition(arguments.begin(), arguments.end(),
                            [](const std::string& argument) { return !names_result(argument); });
  std::vector<std::string> results(first, arguments.end());
  arguments.erase(first, arguments.end());
  return results;
}

}  // namespace commlens
