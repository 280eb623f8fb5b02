#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/reproduce/pair_messages.hpp"
#include "commlens/app/reproduce/study.hpp"

namespace commlens::study {

/// First and later messages between the stages of a training of this machine.
struct ColdStages {
  std::string id;       // "threads"
  std::string setting;  // "Open MPI, TCP"
  Series series;
  std::vector<PairCalls> pairs;
  RankPairs connected = {};   // by their first message
  bool is_connected = false;  // whether ranks have connections at all
};

/// Of threads, which have no connections, and of MPI over each network: those that were recorded.
std::vector<ColdStages> cold_stages(const Study& study);

/// Those whose first message made their connection.
std::vector<PairCalls> connecting_pairs(const ColdStages& stages);

/// First calls of an op, of all pairs, and the later ones (medians of pairs), the means over pairs.
struct ColdTimes {
  std::int64_t pairs = 0;
  double first_ns = 0;
  double later_ns = 0;
  double first_moving_ns = 0;  // of receives
  double later_moving_ns = 0;
  double slowdown() const { return later_ns > 0 ? first_ns / later_ns : 0; }
  double moving_slowdown() const { return later_moving_ns > 0 ? first_moving_ns / later_moving_ns : 0; }
};
ColdTimes cold_times(const std::vector<PairCalls>& pairs, CommKind op);

/// How much longer first receives took than later ones of the same pair, from when both ends had begun, where
/// the first message made the connection.
struct ColdSlowdowns {
  std::int64_t pairs = 0;
  double mean = 0;
  double least = 0;
  double most = 0;
};
/// std::nullopt: no first message made one.
std::optional<ColdSlowdowns> connecting_slowdowns(const ColdStages& stages);

}  // namespace commlens::study
