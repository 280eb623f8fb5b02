#include "commlens/trace/one_rank.hpp"

#include <utility>

namespace commlens {

bool keep_rank(Trace& trace, Rank rank) {
  const RankStream* const found = trace.stream_of(rank);
  if (found == nullptr) {
    return false;
  }
  RankStream kept = *found;
  kept.ranks = {rank, rank};
  trace.provenance.job_ranks = trace.job_ranks();
  trace.streams = {std::move(kept)};
  return true;
}

}  // namespace commlens
