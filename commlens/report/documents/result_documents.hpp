#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// A number with its 90 % interval.
struct WithInterval {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Parts of an iteration's time, by their keys.
constexpr std::array<std::string_view, 7> k_part_keys = {
    "compute_s",       "tensor_messages_s", "bubble_s", "stage_messages_s",
    "data_messages_s", "optimizer_s",       "other_s"};

/// A layout that `search` lists.
struct FoundLayout {
  std::string text;  // "tp 8, pp 16, dp 8, …"
  WithInterval seconds;
  WithInterval memory;  // bytes of a rank
  double mfu = 0;
  std::array<double, k_part_keys.size()> parts{};  // seconds, in the order of k_part_keys
  bool is_equal = false;                           // as fast as the first within the error
  std::string provenance;
  std::optional<WithInterval> simulated;  // seconds
  std::string simulated_by;               // provenance of these
  std::string reason;                     // why they are absent, where they were asked for
};

/// One change of the first layout.
struct FoundChange {
  std::string setting;
  std::string now;
  std::string then;
  WithInterval seconds;
  WithInterval memory;
  double slower = 0;  // share of the first's time
  bool fits = true;
};

/// What layouts were searched for, and on what.
struct SearchedOn {
  std::string name;  // of the file
  std::string model;
  std::string machine;
  std::string processor;
  std::string framework;
  std::string precision;
  std::string provenance;
  std::int64_t ranks = 0;
  std::int64_t sequences = 0;
  std::int64_t sequence = 0;
  std::int64_t memory_limit = 0;  // bytes
};

/// commlens.search/1.
struct FoundLayouts {
  SearchedOn on;
  std::int64_t evaluated = 0;
  std::int64_t fitting = 0;
  std::int64_t equal = 0;
  std::vector<FoundLayout> fastest;  // at least one
  std::vector<FoundLayout> front;
  std::vector<FoundChange> changes;
  std::optional<FoundLayout> with_twice;
  std::optional<double> order_tau;  // where the first were simulated
  std::string library;              // that these are simulated with
};

/// The fastest layout on a number of devices.
struct FoundOnDevices {
  std::int64_t ranks = 0;
  std::optional<FoundLayout> layout;
  std::string reason;             // why it is absent
  double tokens_per_s = 0;        // of all ranks
  std::optional<double> scaling;  // share
};

/// commlens.search_scaling/1.
struct FoundScaling {
  SearchedOn on;
  std::vector<FoundOnDevices> rows;  // at least one
};

/// What an operation along an axis costs in a simulated iteration.
struct CallsOfIteration {
  std::string op;
  std::string axis;
  double calls = 0;  // of a rank
  WithInterval exposed;
  WithInterval moving;
  std::string provenance;
};

/// commlens.simulate/1.
struct SimulatedIteration {
  std::string name;  // of the file
  std::string model;
  std::string layout;
  std::string framework;
  std::string machine;
  std::string machine_title;
  std::string library;
  std::string kernels;  // provenance of their times
  std::int64_t ranks = 0;
  std::vector<std::string> unverified;
  std::string contention;                // "none", "flows", "simgrid"
  std::vector<std::string> assumptions;  // about links, where they are shared
  WithInterval seconds;
  WithInterval tokens_per_s;  // of a rank
  WithInterval mfu;
  WithInterval compute;
  WithInterval exposed;
  WithInterval waiting;
  WithInterval memory;  // bytes
  std::vector<CallsOfIteration> calls;
};

/// A row of `bench`.
struct MeasuredCall {
  std::string op;
  std::string dtype;
  std::string groups;      // "world", an axis, "tp+dp"
  std::int64_t ranks = 0;  // of a group; 0: of several
  std::int64_t bytes = 0;  // of the message
  bool in_place = false;
  std::int64_t samples = 0;
  WithInterval nanoseconds;             // P50; the interval of 95 %, or the range of launches
  std::optional<double> bus_bandwidth;  // bytes/s
};

/// commlens.bench/1.
struct MeasuredCalls {
  std::string name;  // of the file
  std::string transport;
  std::string cache;  // "hot", "cold"
  std::int64_t ranks = 0;
  std::int64_t launches = 0;
  bool is_partial = false;
  std::vector<MeasuredCall> calls;  // at least one
};

/// What `search`, `simulate` and `bench` have written, as far as a report was given it.
struct ResultDocuments {
  std::optional<FoundLayouts> layouts;
  std::optional<FoundScaling> scaling;
  std::optional<SimulatedIteration> simulated;
  std::optional<MeasuredCalls> measured;
  bool empty() const { return !layouts && !scaling && !simulated && !measured; }
};

/// Whether a file that begins so is the JSON of `search`, `simulate` or `bench`.
bool is_result_document(std::string_view head);

/// Reads the JSON of the file `name` into the member that it is of. Fails, naming the place, on what such a
/// file does not hold, and where there is one of the kind already.
Result<void> read_result_document(const std::string& name, std::string_view text, ResultDocuments& into);

}  // namespace commlens
