#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "commlens/base/dtype.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/formats/io/torch_groups.hpp"

namespace commlens::formats::flight_recorder {

/// Bytes of the tensors on one side of a recorded call; nothing when they cannot be determined.
struct FlightBuffer {
  std::optional<std::int64_t> bytes;
  DType dtype = DType::uint8;
};

/// One entry of a flight recorder's dump.
struct FlightEntry {
  enum class State : std::uint8_t { scheduled, started, completed, unknown };
  std::string name;  // "all_reduce", without "nccl:" and the ranks of "send 1->2"
  std::string group;
  std::string pg_id;                // its number, where the group has no name
  std::int64_t sequence = -1;       // of the collective in its group
  std::int64_t pair_sequence = -1;  // of the send or receive
  bool is_pair = false;
  std::optional<std::int64_t> source;  // places in the group, of a send or receive
  std::optional<std::int64_t> destination;
  FlightBuffer input;
  FlightBuffer output;
  State state = State::unknown;
  std::optional<std::int64_t> created_ns;
  std::optional<std::int64_t> completed_ns;  // when the watchdog saw it
  std::optional<std::int64_t> duration_ns;
  std::string site;  // where the program called it: "train.py:12 step"

  bool is_coalescing_marker() const { return name == "coalesced"; }
};

/// Reads an entry; std::nullopt if it has no name.
std::optional<FlightEntry> flight_entry(const nlohmann::json& json);

/// Whether a frame of the stack is the program's and not PyTorch's own; the innermost of them is an entry's
/// site.
bool is_program_frame(const nlohmann::json& frame);

/// Adds the groups of the member "pg_config", {"0": {"name": "0", "desc": …, "ranks": "[0, 1]"}, …}.
void add_flight_groups(const nlohmann::json& pg_config, TorchGroups& groups);

}  // namespace commlens::formats::flight_recorder
