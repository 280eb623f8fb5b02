#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/app/format.hpp"
#include "commlens/app/summarise.hpp"
#include "commlens/base/table.hpp"

namespace commlens {

/// The most rows of single iterations in JSON, which then has the first ones, their number and their totals.
constexpr std::int64_t k_most_json_rows = 100'000;

/// How a summary is shown.
struct SummaryView {
  const SummarySubject& subject;
  std::string name;  // of the trace, as the user gave it
  SummaryOptions options;
  std::optional<BytesPerSecond> link;  // --link-bandwidth
  bool with_stragglers = true;         // match the calls of all ranks with each other
  std::int64_t most_json_rows = k_most_json_rows;
  std::string scope() const;  // "rank 3", "all ranks"
};

/// A titled part of the text; skipped if its body is empty.
struct SummaryBlock {
  std::string title;
  std::string body;
};

/// The blocks about calls, in their order; the text continues with the analyses that relate calls to each
/// other.
std::vector<SummaryBlock> summary_blocks(const SummaryView& view, const TextStyle& style);

/// All of it: a table; JSON as schema commlens.summary/2; CSV with one line per row.
std::string rendered(const SummaryView& view, Format format, const TextStyle& style = {});
/// The distribution of message sizes alone.
std::string rendered_sizes(const SummaryView& view, Format format, const TextStyle& style = {});

std::string summary_text(const SummaryView& view, const TextStyle& style);
nlohmann::ordered_json summary_json(const SummaryView& view);
std::string summary_csv(const SummaryView& view);

}  // namespace commlens
