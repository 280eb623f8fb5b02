#pragma once
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/app/prediction.hpp"
#include "commlens/base/table.hpp"

namespace commlens {

/// One combination of swept flags: its totals, or why it cannot be planned.
struct SweepRow {
  std::vector<std::pair<std::string, std::string>> swept;  // {"--seq", "1024"}
  std::string reason;                                      // why there is no prediction; empty: there is one
  Totals per_rank;
  std::map<CommKind, Bytes> message_per_rank;  // of each op
  Bytes aggregate_wire;
  Bytes inter_node_per_rank;
  Bytes memory;                // of the fullest rank, estimated
  std::int64_t sequences = 0;  // that all ranks together train on in the iteration; 0 at initialisation
  std::string framework;
  std::string framework_version;
  std::vector<std::string> unverified;  // empty: every rule used was measured
};

/// Properties shared by all combinations of a sweep.
struct SweepHead {
  std::string model;
  std::string iteration;
  std::string accounting;
  std::int64_t rank = 0;
  bool by_node = false;  // whether inter-node bytes are known
};

/// All combinations.
struct Sweep {
  SweepHead head;
  std::vector<SweepRow> rows;
};

SweepRow sweep_row(const Prediction& prediction);

/// One line for a sweep whose possible rows train on different numbers of sequences, so that their bytes are
/// not comparable: the numbers, and the flag that fixes them. Empty if the work is the same.
std::string uneven_work_text(const std::vector<SweepRow>& rows);

/// One row per combination: calls and bytes of one rank, wire bytes of all ranks, in all and per sequence,
/// memory.
std::string sweep_text(const SweepHead& head, const std::vector<SweepRow>& rows, const TextStyle& style);
nlohmann::ordered_json sweep_json(const SweepHead& head, const std::vector<SweepRow>& rows);
std::string sweep_csv(const SweepHead& head, const std::vector<SweepRow>& rows);

}  // namespace commlens
