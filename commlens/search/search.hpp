#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/search/changes.hpp"
#include "commlens/search/ranking.hpp"
#include "commlens/search/searched_run.hpp"

namespace commlens {

/// The layouts of a model on some devices of a machine, by time.
struct SearchAnswer {
  SearchedRun searched;
  Ranking ranking;
  std::vector<LayoutChange> changes;  // of the fastest
};

/// `most`: how many layouts are kept, at least one. Fails, naming what binds, where the model or the batch
/// cannot be divided over the devices, where nothing fits into their memory, and as searched_run does.
Result<SearchAnswer> search(const SearchQuestion& question, const RunCalibration& calibration,
                            std::size_t most);

/// The fastest layout on one number of devices.
struct ScalePoint {
  std::int64_t ranks = 0;
  std::string reason;   // why there is none, in a few words; empty: there is one
  RankedLayout layout;  // the fastest
  double mfu = 0;       // share of the peak that the model's mathematics make up
  std::int64_t evaluated = 0;
};

/// Of the question's devices, halved as long as they are whole; ascending. Fails where none has a layout.
struct ScaleAnswer {
  SearchedRun searched;  // of the question's devices
  std::vector<ScalePoint> points;
};
Result<ScaleAnswer> scaled_search(const SearchQuestion& question, const RunCalibration& calibration);

/// "tp 8, pp 16, dp 8, 2 chunks, micro-batch 1, …": what tells a layout from others.
std::string layout_text(const RunLayout& layout, const RunBehaviour& behaviour);

/// The 90 % interval of a layout's time.
TimeRange range_of(const SearchedRun& searched, const RankedLayout& layout);

/// Share of the devices' peak that the model's mathematics take.
double mfu_of(const TrainingRun& base, const RankedLayout& layout);

}  // namespace commlens
