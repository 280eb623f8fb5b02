#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "commlens/live/job_progress.hpp"

namespace commlens {

/// What was asked for in collectives that ranks are inside of, as far as their own node or another remembers.
class AskedFor {
 public:
  void add(const RankProgress& rank);
  void add(const CallDifference& difference);
  /// The first of each channel that a rank is inside of.
  std::vector<CallDifference> differences() const;

 private:
  using Place = std::pair<std::size_t, std::int64_t>;  // channel, number
  /// Whether the call is one that all members make alike.
  bool add(Rank rank, const SeenCall& call);

  std::map<Place, std::map<Rank, CallSignature>> asked_;
  std::set<Place> inside_;
};

}  // namespace commlens
