#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens::tune {

/// The algorithm of one message on groups of one size. It holds for exactly that size: nothing is known of
/// others.
struct Rule {
  CommKind kind = CommKind::all_reduce;
  std::int64_t ranks = 2;
  Bytes message;          // comm/volume.hpp
  std::string algorithm;  // by the library's name; of NCCL "tree/simple": algorithm and protocol
  friend bool operator==(const Rule&, const Rule&) = default;
};

/// Where rules come from, for the comments of their files.
struct RuleOrigin {
  std::string machine;   // host, processor
  std::string versions;  // commlens and the library, as each says
  std::string date;      // 2026-11-27
  std::uint64_t seed = 1;
  std::string messages;  // whose: "19M", the trace
};

// Rules of one kind, ranks and message occur once. All functions fail, naming the rule, where the library
// could not be given it: a kind or an algorithm that it does not have, a size that its file cannot hold.

/// A file for coll_tuned_dynamic_rules_filename of Open MPI 4.1 and later. Blocking calls use it. Everything
/// that has no rule stays Open MPI's decision: groups of other sizes, and other message sizes. Its sizes are
/// those of coll_tuned_decision_dynamic.c, which are message bytes for every kind.
Result<std::string> open_mpi_rules(std::vector<Rule> rules, const RuleOrigin& origin);

/// A file for MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE of MPICH 4.0: a complete tree, the library's own
/// defaults but for the rules. JSON has no comments. Sizes end at 2^31 - 1 bytes (csel.c reads them with
/// atoi).
Result<std::string> mpich_rules(std::vector<Rule> rules);
/// Whether `version`, as the library says it, has the algorithms that mpich_rules() names: others end a job.
bool mpich_rules_fit(const std::string& version);

/// A file of NCCL's example tuner plug-in (plugins/tuner/example), which applies the first line that matches.
Result<std::string> nccl_tuner_rules(std::vector<Rule> rules, const RuleOrigin& origin);

/// The value of NCCL_ALGO for the ops all of whose messages have a rule for the same algorithm: it does not
/// depend on sizes. `others`: messages that stay at NCCL's choice. "allreduce:tree;broadcast:ring", or empty.
std::string nccl_algorithms(const std::vector<Rule>& rules, const std::vector<Rule>& others);

}  // namespace commlens::tune
