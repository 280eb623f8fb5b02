#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/formats/io/call_fields.hpp"

namespace commlens::formats::otf2 {

/// What the global definitions of an archive say, as far as calls need it. References are OTF2's own numbers;
/// definitions may come in any order (EZTrace writes them so).
class Otf2Definitions {
 public:
  void set_clock(std::uint64_t ticks_per_second, std::uint64_t offset);
  void add_string(std::uint32_t self, std::string_view text) { strings_[self] = text; }
  void add_location(std::uint64_t self, std::uint32_t process);
  void add_region(std::uint32_t self, std::uint32_t name, bool is_mpi) { regions_[self] = {name, is_mpi}; }
  void add_ranks(std::vector<std::uint64_t> locations) { ranks_ = std::move(locations); }
  void add_group(std::uint32_t self, std::vector<std::uint64_t> members, bool are_locations);
  void add_self_group(std::uint32_t self) { self_groups_[self] = true; }
  void add_comm(std::uint32_t self, std::uint32_t group, std::uint32_t name) { comms_[self] = {group, name}; }
  void add_inter_comm(std::uint32_t self) { inter_comms_[self] = true; }
  void add_attribute(std::uint32_t self, std::uint32_t name) { attributes_[self] = name; }

  /// To be called when all definitions are there: numbers the locations and looks at names.
  void conclude();

  const std::vector<std::uint64_t>& locations() const { return locations_; }
  /// The rank of a location; a thread that is no rank itself has the one of its process.
  std::optional<Rank> rank_of(std::uint64_t location) const;
  /// Whether the archive reports which locations are the ranks; else they are numbered by process.
  bool knows_ranks() const { return knows_ranks_; }
  /// Members of a communicator in its own order; std::nullopt if it is not defined or joins two groups.
  std::optional<std::vector<Rank>> members(std::uint32_t comm, Rank self) const;
  /// What distinguishes a communicator from others of the same ranks: "MPI_COMM_WORLD", or its number in the
  /// archive.
  std::string comm_label(std::uint32_t comm) const;
  bool is_inter_comm(std::uint32_t comm) const { return inter_comms_.contains(comm); }
  /// Whether a region is a function of a communication library.
  bool is_call(std::uint32_t region) const;
  std::string_view text(std::uint32_t string) const;
  /// The field that an attribute of ours carries; null for attributes of others.
  const CallField* field(std::uint32_t attribute) const;
  bool is_comm_attribute(std::uint32_t attribute) const;
  /// Nanoseconds after the archive's clock offset.
  std::int64_t ns(std::uint64_t time) const;
  /// EZTrace writes the counts of one peer where others write the sizes of buffers.
  bool is_eztrace() const { return is_eztrace_; }

 private:
  struct Group {
    std::vector<std::uint64_t> members;
    bool are_locations = false;
  };
  struct Comm {
    std::uint32_t group = 0;
    std::uint32_t name = 0;
  };
  struct Region {
    std::uint32_t name = 0;
    bool is_mpi = false;
  };

  std::uint64_t ticks_per_second_ = 1'000'000'000;
  std::uint64_t offset_ = 0;
  std::unordered_map<std::uint32_t, std::string> strings_;
  std::vector<std::uint64_t> locations_;
  std::unordered_map<std::uint64_t, std::uint32_t> process_of_;  // location -> location group
  std::vector<std::uint64_t> ranks_;                             // location of each rank
  std::unordered_map<std::uint64_t, Rank> rank_of_location_;
  std::unordered_map<std::uint32_t, Rank> rank_of_process_;
  std::unordered_map<std::uint32_t, Group> groups_;
  std::unordered_map<std::uint32_t, bool> self_groups_;
  std::unordered_map<std::uint32_t, Comm> comms_;
  std::unordered_map<std::uint32_t, bool> inter_comms_;
  std::unordered_map<std::uint32_t, Region> regions_;
  std::unordered_map<std::uint32_t, bool> call_regions_;
  std::unordered_map<std::uint32_t, std::uint32_t> attributes_;  // -> its name
  std::unordered_map<std::uint32_t, const CallField*> fields_;
  bool knows_ranks_ = true;
  bool is_eztrace_ = false;
};

}  // namespace commlens::formats::otf2
