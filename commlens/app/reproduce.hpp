#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/table.hpp"

namespace commlens {

/// A reproduction of arXiv 2408.10197.
struct ReproduceRequest {
  std::string directory;  // that is written: index.html, paper.md, figures/, recordings/
  enum class Effort : std::uint8_t {
    none,   // nothing is trained: theory, simulations and recordings that came with the program
    quick,  // seconds of training of narrow models
    full    // 19M and 125M on eight ranks
  } effort = Effort::quick;
  std::function<bool()> stop_requested;  // polled between iterations of trainings; what is done is written
  Events events;
};

/// What was written, and how the paper's takeaways fared.
struct ReproduceResult {
  std::string directory;
  std::int64_t figures = 0;               // that were made
  std::vector<std::string> left_out;      // "fig-5: why"
  std::vector<std::string> not_recorded;  // trainings that this machine could not do, and why
  std::string no_pictures;                // why no SVG was written; empty: they were
  std::int64_t trainings = 0;             // that were done
  bool stopped = false;
  Table takeaways = Table({});  // claim, expected, found, verdict, evidence
};

/// Makes every figure, table and equation of the paper, the footnotes and the takeaways, and writes them.
/// What is done before an interruption is complete. Fails if the directory cannot be used; throws
/// SystemError.
Result<ReproduceResult> reproduce(const ReproduceRequest& request);

/// The takeaways: a table; JSON as schema commlens.reproduce/1; CSV with one line per check.
std::string rendered(const ReproduceResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
