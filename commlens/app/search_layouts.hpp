#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/search/search.hpp"
#include "commlens/simulate/timeline/estimate.hpp"

namespace commlens {

/// A model whose fastest layouts on a machine are wanted.
struct SearchRequest {
  std::vector<std::string> config;  // what predict takes; its layout is not used
  std::string machine;              // a name of commlens machines, or a file
  std::int64_t ranks = 0;           // devices
  std::int64_t global_batch = 0;    // sequences of an iteration; 0: the configuration's
  std::int64_t sequence = 0;        // tokens; 0: the model's
  std::string framework;            // whose behaviour; empty: the one that the device was measured with
  std::string precision = "bf16";   // of matrix products: bf16, fp8, fp4
  std::string calibration;          // of calibrate --rows; empty: the one that the program brings
  std::int64_t top = 10;            // layouts that are listed
  std::int64_t retime = 0;          // how many are simulated too: the first that can be planned
  Events events;
};

/// A layout's iteration by the event-driven simulation of its plan, or why it has none.
struct RetimedLayout {
  std::optional<Estimate> seconds = {};
  std::string reason = {};
  std::string library = {};     // "nccl 2.29.2"
  std::string provenance = {};  // whose plan, and where times of kernels are from
};

/// The fastest layouts, by time.
struct SearchResult {
  SearchQuestion question;
  SearchAnswer answer;
  std::size_t top = 10;
  std::vector<RetimedLayout> retimed = {};  // of the first of the list, in its order
};

/// How far the order of the list is that of the simulated times.
struct OrderAgreement {
  std::int64_t layouts = 0;       // that were simulated
  std::int64_t pairs = 0;         // of them, whose times differ
  std::int64_t same = 0;          // in the same order
  std::int64_t within_error = 0;  // of the others: simulated times closer than the error of the list's, or
                                  // with intervals that overlap
  /// Kendall's: 1 for the same order, -1 for the reverse.
  double tau() const {
    return pairs > 0 ? static_cast<double>(2 * same - pairs) / static_cast<double>(pairs) : 0;
  }
};
OrderAgreement order_agreement(const SearchResult& result);
/// Fails on what cannot be read, without a global batch, and, naming what binds, where no layout is possible.
Result<SearchResult> search_layouts(const SearchRequest& request);

/// The fastest layout on each number of devices, doubling up to the request's.
struct ScaleResult {
  SearchQuestion question;
  ScaleAnswer answer;
};
Result<ScaleResult> scale_layouts(const SearchRequest& request);

/// What is listed, why, what binds and what one change would give; JSON as schema commlens.search/1; CSV of
/// the list.
std::string rendered(const SearchResult& result, Format format, const TextStyle& style = {});
/// A row for each number of devices; JSON as schema commlens.search_scaling/1.
std::string rendered(const ScaleResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
