#include "commlens/report/vocabulary.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

using Unit = ColumnUnit;

constexpr ColumnScope k_call = ColumnScope::call;
constexpr ColumnScope k_rank = ColumnScope::rank;
constexpr ColumnScope k_rank_0 = ColumnScope::rank_0;
constexpr ColumnScope k_all = ColumnScope::all_ranks;

// Sorted by key.
constexpr OutputKey k_keys[] = {
    {"OP_blocked_s_rank_0", "blocked", Unit::seconds, k_rank_0},
    {"OP_calls_rank_0", "calls", Unit::count, k_rank_0},
    {"OP_message_bytes_per_rank", "message bytes", Unit::bytes, k_rank},
    {"algorithm_bandwidth_bytes_per_s", "alg bw", Unit::bytes_per_s, k_call},
    {"axis", "axis"},
    {"between_calls_ns", "between calls", Unit::nanoseconds, k_rank},
    {"between_calls_share", "share", Unit::share, k_rank},
    {"blocks", "blocks", Unit::count},
    {"bubble_ns", "bubble", Unit::nanoseconds, k_rank},
    {"bubble_share", "bubble share", Unit::share, k_rank},
    {"bubble_share_saved", "bubble saved", Unit::share, k_rank},
    {"bus_bandwidth_bytes_per_s", "bus bw", Unit::bytes_per_s, k_call},
    {"bus_share_of_link", "of link", Unit::share},
    {"call", "op and group"},
    {"call_index", "call", Unit::id},
    {"calls", "calls", Unit::count, k_rank},
    {"calls_a_all_ranks", "calls A", Unit::count, k_all},
    {"calls_all_ranks", "calls", Unit::count, k_all},
    {"calls_b_all_ranks", "calls B", Unit::count, k_all},
    {"calls_only_a_all_ranks", "calls only in A", Unit::count, k_all},
    {"calls_only_b_all_ranks", "calls only in B", Unit::count, k_all},
    {"calls_per_iteration_all_ranks", "calls per iteration", Unit::count, k_all},
    {"calls_per_rank", "calls", Unit::count, k_rank},
    {"calls_rank_0", "calls", Unit::count, k_rank_0},
    {"calls_saved_per_rank", "calls saved", Unit::count, k_rank},
    {"came_last", "came last", Unit::count, k_rank},
    {"cause", "cause"},
    {"caused_ns", "others waited", Unit::nanoseconds, k_rank},
    {"causes", "what for"},
    {"cold", "cold"},
    {"cold_calls_all_ranks", "cold calls", Unit::count, k_all},
    {"cold_message_bytes_all_ranks", "cold bytes", Unit::bytes, k_all},
    {"cold_slowdown", "slower", Unit::number},
    {"communication_ns", "time", Unit::nanoseconds, k_rank},
    {"communication_ns_all_ranks", "time", Unit::nanoseconds, k_all},
    {"communication_share_rank_0", "in comm", Unit::share, k_rank_0},
    {"communicator", "communicator"},
    {"compared_calls_all_ranks", "compared", Unit::count, k_all},
    {"compared_mean_ns", "first", Unit::nanoseconds, k_call},
    {"compared_time_ns_all_ranks", "compared time", Unit::nanoseconds, k_all},
    {"compute_ns", "computing", Unit::nanoseconds, k_rank},
    {"compute_ns_all_ranks", "computing", Unit::nanoseconds, k_all},
    {"count", "count", Unit::count},
    {"data_dependent", "data dependent"},
    {"destination_rank", "to rank", Unit::id},
    {"dtype", "dtype"},
    {"dtype_a", "A"},
    {"dtype_b", "B"},
    {"duration_ns", "duration", Unit::nanoseconds, k_call},
    {"effect", "what that means"},
    {"equal", "equal"},
    {"equal_calls_all_ranks", "equal", Unit::count, k_all},
    {"exact_quantiles", "exact"},
    {"example", "first seen"},
    {"example_group", "group there"},
    {"example_iteration", "iteration", Unit::id},
    {"example_rank", "first seen", Unit::id},
    {"excess_ns", "more than the median", Unit::nanoseconds, k_rank},
    {"expected_calls_rank_0", "expected", Unit::count, k_rank_0},
    {"exposed_ns", "exposed", Unit::nanoseconds, k_rank},
    {"exposed_ns_all_ranks", "exposed", Unit::nanoseconds, k_all},
    {"exposed_share", "exposed share", Unit::share, k_all},
    {"first_rank", "first rank", Unit::id},
    {"flag", "flag"},
    {"flops_per_s_per_rank", "FLOP/s", Unit::number, k_rank},
    {"formula", "definition"},
    {"framework", "framework"},
    {"framework_version", "version"},
    {"from", "from"},
    {"gradient_norm", "norm", Unit::number},
    {"group", "group"},
    {"group_row", "group", Unit::id},
    {"group_size", "group", Unit::count},
    {"group_text", "group"},
    {"here", "here"},
    {"hidden_share", "hidden", Unit::share, k_all},
    {"id", "id"},
    {"idle_ns", "idle", Unit::nanoseconds, k_rank},
    {"idle_ns_all_ranks", "idle", Unit::nanoseconds, k_all},
    {"in_calls_ns", "in calls", Unit::nanoseconds, k_rank},
    {"in_calls_ns_all_ranks", "in calls", Unit::nanoseconds, k_all},
    {"in_pipeline_calls_ns", "in pipeline calls", Unit::nanoseconds, k_rank},
    {"incomplete", "incomplete", Unit::count},
    {"input_bytes_a", "input in A", Unit::bytes, k_call},
    {"input_bytes_b", "input in B", Unit::bytes, k_call},
    {"iteration", "iteration", Unit::id},
    {"iteration_count", "iterations", Unit::count},
    {"iteration_count_a", "iterations A", Unit::count},
    {"iteration_count_b", "iterations B", Unit::count},
    {"kind", "kind"},
    {"largest_message_bytes", "largest", Unit::bytes, k_call},
    {"last_arrival_ns", "last arrival", Unit::nanoseconds},
    {"last_rank", "last rank", Unit::id},
    {"later_mean_ns", "later", Unit::nanoseconds, k_call},
    {"later_time_ns_all_ranks", "later time", Unit::nanoseconds, k_all},
    {"learning_rate", "lr", Unit::number},
    {"logged_calls_rank_0", "logged", Unit::count, k_rank_0},
    {"logged_size_bytes", "logged size", Unit::bytes, k_call},
    {"longest_ns", "longest", Unit::nanoseconds, k_call},
    {"longest_wait_ns", "longest wait", Unit::nanoseconds, k_rank},
    {"longest_wait_rank", "longest waiter", Unit::id},
    {"loss", "loss", Unit::number},
    {"loss_scale", "loss scale", Unit::number},
    {"lost_ns_all_ranks", "lost", Unit::nanoseconds, k_all},
    {"lower_bytes", "from (bytes)", Unit::bytes, k_call},
    {"matched", "matched", Unit::count},
    {"mean_caused_ns", "each time", Unit::nanoseconds, k_rank},
    {"mean_ns", "mean", Unit::nanoseconds, k_call},
    {"memory_added_bytes_per_rank", "memory added", Unit::bytes, k_rank},
    {"message_bytes", "message", Unit::bytes, k_call},
    {"message_bytes_a", "message bytes in A", Unit::bytes, k_call},
    {"message_bytes_a_all_ranks", "bytes A", Unit::bytes, k_all},
    {"message_bytes_all_ranks", "message bytes", Unit::bytes, k_all},
    {"message_bytes_b", "message bytes in B", Unit::bytes, k_call},
    {"message_bytes_b_all_ranks", "bytes B", Unit::bytes, k_all},
    {"message_bytes_only_a_all_ranks", "message bytes only in A", Unit::bytes, k_all},
    {"message_bytes_only_b_all_ranks", "message bytes only in B", Unit::bytes, k_all},
    {"message_bytes_per_iteration_all_ranks", "message bytes per iteration", Unit::bytes, k_all},
    {"message_bytes_per_rank", "message bytes", Unit::bytes, k_rank},
    {"message_bytes_saved_per_rank", "message bytes saved", Unit::bytes, k_rank},
    {"model", "model"},
    {"name", "name"},
    {"no_traffic", "no traffic"},
    {"op", "op"},
    {"output_bytes_a", "output in A", Unit::bytes, k_call},
    {"output_bytes_b", "output in B", Unit::bytes, k_call},
    {"overlapped_ns", "overlapped", Unit::nanoseconds, k_rank},
    {"overlapped_ns_all_ranks", "overlapped", Unit::nanoseconds, k_all},
    {"p", "p", Unit::number},
    {"p50_high_ns", "P50 to", Unit::nanoseconds, k_call},
    {"p50_low_ns", "P50 from", Unit::nanoseconds, k_call},
    {"p50_ns", "P50", Unit::nanoseconds, k_call},
    {"p95_ns", "P95", Unit::nanoseconds, k_call},
    {"p_adjusted", "p adjusted", Unit::number},
    {"part", "part of the time"},
    {"part_ns", "time", Unit::nanoseconds, k_rank},
    {"part_share", "share of the rank's iterations", Unit::share, k_rank},
    {"parts_not_compared", "parts not compared", Unit::count},
    {"phase", "phase"},
    {"rank", "rank", Unit::id},
    {"rank_block", "block of ranks", Unit::count},
    {"rank_block_every", "every", Unit::count},
    {"rank_count", "ranks", Unit::count},
    {"ranks", "ranks", Unit::id},
    {"ranks_text", "ranks"},
    {"ratio", "B / A", Unit::number},
    {"reason", "why"},
    {"receiver_first", "receiver first", Unit::count},
    {"receiver_waited_ns", "receiver waited", Unit::nanoseconds, k_rank},
    {"reordered_sequences", "sequences in another order", Unit::count},
    {"required", "required"},
    {"rounding_bytes", "rounding", Unit::bytes, k_call},
    {"rule", "rule"},
    {"rules", "rules"},
    {"sender_first", "sender first", Unit::count},
    {"sender_waited_ns", "sender waited", Unit::nanoseconds, k_rank},
    {"sequences_per_iteration", "sequences", Unit::count, k_all},
    {"setting", "setting"},
    {"share_of_calls", "share", Unit::share, k_all},
    {"share_of_message_bytes", "share", Unit::share, k_all},
    {"share_of_time", "share", Unit::share, k_all},
    {"shortest_ns", "shortest", Unit::nanoseconds, k_call},
    {"side", "side"},
    {"skipped", "skipped"},
    {"slow", "slow"},
    {"slow_blocks", "slow blocks", Unit::count},
    {"smallest_message_bytes", "smallest", Unit::bytes, k_call},
    {"source", "source"},
    {"source_rank", "from rank", Unit::id},
    {"span_ns", "time", Unit::nanoseconds, k_rank},
    {"span_ns_all_ranks", "time", Unit::nanoseconds, k_all},
    {"start_ns", "start", Unit::nanoseconds},
    {"sum_of_durations_ns", "sum of durations", Unit::nanoseconds, k_rank},
    {"sum_of_durations_ns_all_ranks", "sum of durations", Unit::nanoseconds, k_all},
    {"tag", "tag"},
    {"time_a_ns", "A", Unit::nanoseconds, k_call},
    {"time_b_ns", "B", Unit::nanoseconds, k_call},
    {"time_ns_all_ranks", "total", Unit::nanoseconds, k_all},
    {"time_ns_per_iteration_all_ranks", "time in calls per iteration", Unit::nanoseconds, k_all},
    {"time_s", "time", Unit::seconds},
    {"time_saved_ns", "time saved (estimate)", Unit::nanoseconds, k_rank},
    {"time_source", "source of the time"},
    {"timed_calls_all_ranks", "timed calls", Unit::count, k_all},
    {"title", "change"},
    {"tokens_per_s", "tokens/s", Unit::number, k_all},
    {"total_message_bytes", "total", Unit::bytes, k_rank},
    {"trace", "trace"},
    {"trace_source", "source"},
    {"unverified", "unverified"},
    {"upper_bytes", "to below (bytes)", Unit::bytes, k_call},
    {"value", "value"},
    {"verdict", "verdict"},
    {"verified", "verified"},
    {"waited_ns", "it waited", Unit::nanoseconds, k_rank},
    {"waited_ns_all_ranks", "waited", Unit::nanoseconds, k_all},
    {"warm_calls_all_ranks", "warm calls", Unit::count, k_all},
    {"warm_calls_per_iteration_all_ranks", "warm calls per iteration", Unit::count, k_all},
    {"warm_message_bytes_all_ranks", "warm bytes", Unit::bytes, k_all},
    {"warm_message_bytes_per_iteration_all_ranks", "warm bytes per iteration", Unit::bytes, k_all},
    {"what", "what"},
    {"when", "when"},
    {"which", "which"},
    {"why", "why"},
    {"wire_bytes_all_ranks", "wire bytes", Unit::bytes, k_all},
    {"wire_bytes_mean_per_rank", "mean wire/rank", Unit::bytes, k_rank},
    {"wire_bytes_of_pair", "wire bytes", Unit::bytes},
    {"wire_bytes_per_rank", "wire/rank", Unit::bytes, k_rank},
    {"wire_bytes_per_sequence_all_ranks", "wire/sequence", Unit::bytes, k_all},
    {"wire_bytes_saved_per_rank", "wire bytes saved", Unit::bytes, k_rank},
    {"wire_inter_node_bytes_all_ranks", "inter-node", Unit::bytes, k_all},
    {"wire_inter_node_bytes_per_rank", "inter-node", Unit::bytes, k_rank},
    {"wire_inter_node_bytes_saved_per_rank", "inter-node bytes saved", Unit::bytes, k_rank},
    {"wire_intra_node_bytes_per_rank", "intra-node", Unit::bytes, k_rank},
};

}  // namespace

std::span<const OutputKey> vocabulary() { return k_keys; }

const OutputKey& output_key(std::string_view key) {
  const auto* const found =
      std::lower_bound(std::begin(k_keys), std::end(k_keys), key,
                       [](const OutputKey& each, std::string_view k) { return each.key < k; });
  COMMLENS_CHECK(found != std::end(k_keys) && found->key == key, "every key of a table is in the vocabulary");
  return *found;
}

std::vector<Column> columns(std::vector<Column> uses) {
  for (Column& use : uses) {
    if (use.key.empty() || use.unit != ColumnUnit::text) {
      continue;  // for people only, or of an op
    }
    const OutputKey& known = output_key(use.key);
    use.title = use.title.empty() ? std::string(known.title) : std::move(use.title);
    use.unit = known.unit;
    use.scope = known.scope;
  }
  return uses;
}

Column data(std::string key, std::string json) {
  return {.key = std::move(key), .in_text = false, .json = std::move(json)};
}

Column column_of(CommKind op, std::string_view key) {
  const OutputKey& known = output_key(key);
  return {.key = fmt::format("{}{}", name_of(op), key.substr(std::string_view("OP").size())),
          .title = std::string(name_of(op)),
          .unit = known.unit,
          .scope = known.scope};
}

}  // namespace commlens
