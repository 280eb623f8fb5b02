#pragma once
#include <string>

/// Results of search and simulate, small, of round numbers.
namespace commlens::test_support {

inline const std::string k_listed_layout =
    R"("memory_bytes_per_rank": 1000, "memory_low_bytes_per_rank": 800, "memory_high_bytes_per_rank": 1250,
  "mfu_share": 0.5, "compute_s": 1, "tensor_messages_s": 0.5, "bubble_s": 0.25, "stage_messages_s": 0,
  "data_messages_s": 0.125, "optimizer_s": 0.0625, "other_s": 0.0625, "provenance": "calibrated on 3 runs")";

inline const std::string k_question =
    R"("model": "toy", "machine": "small", "processor": "chip", "rank_count": 8, "sequences_per_iteration": 16,
  "sequence": 1024, "precision": "bf16", "framework": "nemo", "memory_limit_bytes": 2048,
  "provenance": "calibrated on 3 runs")";

inline const std::string k_found_json =
    R"({"schema": "commlens.search/1", )" + k_question +
    R"(, "evaluated_layouts": 90, "fitting_layouts": 80, "equal_layouts": 1, "simulated_order_tau": 0.5,
  "library": "nccl 2.29.2", "rows": [
  {"layout_text": "tp 1, pp 1, dp 8", "time_s": 2, "low_s": 1.5, "high_s": 2.5, "simulated_s": 2.25,
   "simulated_low_s": 2, "simulated_high_s": 3, "simulated_provenance": "megatron 0.19; kernels: fitted",
   "equal_within_error": true, )" +
    k_listed_layout + R"(},
  {"layout_text": "tp 2, pp 1, dp 4", "time_s": 4, "low_s": 3, "high_s": 5, "simulated_s": null, "reason": "no plan",
   "equal_within_error": false, )" +
    k_listed_layout + R"(}],
  "front": [{"layout_text": "tp 1, pp 1, dp 8", "time_s": 2, "low_s": 1.5, "high_s": 2.5,
   "equal_within_error": true, )" +
    k_listed_layout + R"(}],
  "changes": [{"setting": "micro-batch", "now": "1", "then": "2", "time_s": 1, "low_s": 0.5, "high_s": 1.5,
   "memory_bytes_per_rank": 4000, "memory_low_bytes_per_rank": 3200, "memory_high_bytes_per_rank": 5000,
   "slower_share": -0.5, "fits": false}],
  "with_twice_the_memory": [{"layout_text": "tp 1, pp 2, dp 4", "time_s": 1, "low_s": 0.5, "high_s": 1.5,
   "equal_within_error": true, )" +
    k_listed_layout + "}]}";

inline const std::string k_scaling_json =
    R"({"schema": "commlens.search_scaling/1", )" + k_question +
    R"(, "rows": [{"rank_count": 4, "time_s": null, "reason": "memory: at least 9 GiB"},
  {"rank_count": 8, "layout_text": "tp 1, pp 1, dp 8", "time_s": 4, "low_s": 2, "high_s": 8, "tokens_per_s": 4096,
   "scaling_share": 1, "reason": null, )" +
    k_listed_layout + "}]}";

inline const std::string k_simulated_json =
    R"({"schema": "commlens.simulate/1", "model": "toy: 1,000 parameters", "layout_text": "8 ranks",
  "framework": "megatron 0.19", "machine": "small", "machine_title": "Small", "library": "nccl 2.29.2",
  "kernels": "calibrated on 3 runs", "rank_count": 8, "unverified": ["a layer"],
  "contention": "flows", "link_assumptions": ["leaves of 32 nodes", "a global link is as fast as a NIC"],
  "iteration_s": {"value": 0.5, "low": 0.25, "high": 1}, "tokens_per_s_per_rank": {"value": 12345.6, "low": 10000, "high": 20000},
  "mfu": {"value": 0.5, "low": 0.25, "high": 0.75}, "compute_s": {"value": 0.25, "low": 0.125, "high": 0.5},
  "exposed_s": {"value": 0.125, "low": 0.1, "high": 0.2}, "waiting_s": {"value": 0.125, "low": 0.1, "high": 0.2},
  "memory_bytes": {"value": 1024, "low": 512, "high": 2048},
  "calls": [{"op": "all_reduce", "axis": "dp", "calls_per_rank": 11150.25, "exposed_s": 0.125, "exposed_low_s": 0.1,
   "exposed_high_s": 0.2, "moving_s": 0.25, "moving_low_s": 0.2, "moving_high_s": 0.3, "provenance": "measured"}]})";

inline const std::string k_measured_json =
    R"({"schema": "commlens.bench/1", "transport": "mpi", "rank_count": 4, "cache": "hot", "messages_of": null, "partial": false,
  "rows": [{"op": "all_reduce", "dtype": "fp32", "axis": "world", "group_size": 4, "message_bytes": 1024, "in_place": false,
   "samples": 60, "p50_ns": 2000, "p50_low_ns": 1000, "p50_high_ns": 4000, "bus_bandwidth_bytes_per_s": 768000000},
   {"op": "barrier", "dtype": "fp32", "axis": "world", "group_size": 4, "message_bytes": 0, "in_place": false,
   "samples": 20, "p50_ns": 3000, "p50_low_ns": null, "p50_high_ns": null, "bus_bandwidth_bytes_per_s": null}],
  "launches": [{}]})";

/// `text` with `after` in the place of the first `before`.
inline std::string replaced(std::string text, const std::string& before, const std::string& after) {
  return text.replace(text.find(before), before.size(), after);
}

}  // namespace commlens::test_support
