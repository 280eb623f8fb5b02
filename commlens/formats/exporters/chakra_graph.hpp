#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/formats/chakra_messages.hpp"
#include "commlens/formats/exporters/exporters.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Nodes of which each waits for the one before.
struct ChakraChain {
  using Finish = std::pair<std::chrono::nanoseconds, std::uint64_t>;  // and the node's id
  std::optional<std::uint64_t> last;
  std::optional<Finish> latest_finished;
  std::vector<Finish> running;

  /// Moves what has finished by `now` out of `running`.
  void settle(std::chrono::nanoseconds now);
};

/// Writes the graph of one rank (docs/formats/chakra.md): a node per call, each waiting for the call before;
/// where the trace has times, a node per stretch of computing too, and each node waits for what of the other
/// kind had finished when it started.
class ChakraGraph {
 public:
  ChakraGraph(const Trace& trace, const RankStream& stream, Rank rank, const TextSink& sink);
  void write();

 private:
  void write_head();
  void write_groups();
  void write_call(std::size_t row);
  void write_compute(const ComputeInterval& stretch);
  void set_call(const CommOp& op, const CommEvent& event, ChakraNode& node) const;
  void set_group(const CommOp& op, ChakraNode& node) const;
  void set_times(std::chrono::nanoseconds started, std::chrono::nanoseconds finished, ChakraNode& node) const;
  std::string group_number(GroupId group, const std::vector<Rank>& members) const;
  void put(const ChakraNode& node);

  const Trace& trace_;
  const RankStream& stream_;
  Rank rank_;
  const TextSink& sink_;
  std::string block_;
  std::uint64_t next_id_ = 1;
  std::chrono::nanoseconds origin_{};  // earliest time: Chakra's are not negative
  ChakraChain calls_;
  ChakraChain computing_;
};

/// A Chakra execution trace per rank, chakra.RANK.et (docs/formats/chakra.md), in `folder`.
Result<void> write_chakra(const Trace& trace, const CallSelection& selection,
                          const std::filesystem::path& folder);

}  // namespace commlens
