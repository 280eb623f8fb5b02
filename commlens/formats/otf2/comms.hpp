#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

/// The communicators of an archive, in order of first use: all ranks, then each other list of ranks and
/// number of a communicator.
class Otf2Comms {
 public:
  static constexpr std::uint32_t k_all_ranks = 0;

  struct Comm {
    std::string name;
    std::vector<Rank> members;  // none: of each rank alone
  };

  Otf2Comms(const Trace& trace, std::int64_t ranks);

  /// The communicator of a collective, as `self` sees its group; std::nullopt where its ranks are not known.
  std::optional<std::uint32_t> of_group(GroupId group, Rank self);
  /// Where a message to or from `peer` is: the communicator, and the position of `peer` there.
  struct Place {
    std::uint32_t comm = k_all_ranks;
    std::uint32_t peer = 0;
  };
  Place of_message(GroupId pair, Rank self, Rank peer);

  const std::vector<Comm>& list() const { return comms_; }

 private:
  using Key = std::pair<CommunicatorId, std::vector<Rank>>;

  std::uint32_t intern(CommunicatorId communicator, const std::vector<Rank>& members, Axis axis);
  void find_world(const Trace& trace);

  const Trace& trace_;
  std::int64_t ranks_;
  CommunicatorId world_{};  // of all ranks
  std::vector<Comm> comms_;
  std::map<Key, std::uint32_t> rows_;
  std::map<std::vector<Rank>, std::int64_t> alike_;  // communicators so far, by their ranks
  std::map<std::pair<GroupId, Rank>, std::optional<std::uint32_t>> of_group_;
  struct Numbered {
    std::uint32_t row = 0;
    std::unordered_map<std::int64_t, std::uint32_t> positions;
  };
  std::map<CommunicatorId, Numbered> numbered_;  // communicators that collectives show the ranks of
};

}  // namespace commlens::formats::otf2
