#include "commlens/formats/otf2/definitions.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/formats/otf2/api.hpp"

namespace commlens::formats::otf2 {
namespace {

__extension__ using WideTime = unsigned __int128;  // ticks times 1e9 may pass 2^64

bool is_mpi_name(std::string_view name) {
  constexpr std::string_view prefix = "mpi_";
  return name.size() > prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), name.begin(),
                    [](char expected, char c) { return expected == (c >= 'A' && c <= 'Z' ? c + 32 : c); });
}

}  // namespace

void Otf2Definitions::set_clock(std::uint64_t ticks_per_second, std::uint64_t offset) {
  ticks_per_second_ = std::max<std::uint64_t>(ticks_per_second, 1);
  offset_ = offset;
}

void Otf2Definitions::add_location(std::uint64_t self, std::uint32_t process) {
  if (process_of_.try_emplace(self, process).second) {
    locations_.push_back(self);
  }
}

void Otf2Definitions::add_group(std::uint32_t self, std::vector<std::uint64_t> members, bool are_locations) {
  groups_[self] = {std::move(members), are_locations};
}

void Otf2Definitions::conclude() {
  knows_ranks_ = !ranks_.empty();
  if (!knows_ranks_) {  // one rank per process, in the order of the archive
    for (const std::uint64_t location : locations_) {
      const auto next = static_cast<std::int64_t>(rank_of_process_.size());
      if (rank_of_process_.try_emplace(process_of_[location], Rank{next}).second) {
        ranks_.push_back(location);
      }
    }
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank value{static_cast<std::int64_t>(rank)};
    rank_of_location_.try_emplace(ranks_[rank], value);
    if (const auto process = process_of_.find(ranks_[rank]); process != process_of_.end()) {
      rank_of_process_.try_emplace(process->second, value);
    }
  }
  for (const auto& [self, region] : regions_) {
    const std::string_view name = text(region.name);
    is_eztrace_ = is_eztrace_ || name == "EZTrace finalize";
    call_regions_[self] = region.is_mpi || is_mpi_name(name);
  }
  for (const auto& [self, name] : attributes_) {
    for (const CallField& field : call_fields()) {
      if (text(name) == std::string(k_otf2_attribute).append(field.key)) {
        fields_[self] = &field;
      }
    }
  }
}

std::optional<Rank> Otf2Definitions::rank_of(std::uint64_t location) const {
  if (const auto found = rank_of_location_.find(location); found != rank_of_location_.end()) {
    return found->second;
  }
  const auto process = process_of_.find(location);
  const auto found =
      process == process_of_.end() ? rank_of_process_.end() : rank_of_process_.find(process->second);
  return found == rank_of_process_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::vector<Rank>> Otf2Definitions::members(std::uint32_t comm, Rank self) const {
  const auto group_of = comms_.find(comm);
  if (group_of == comms_.end()) {
    return std::nullopt;
  }
  if (self_groups_.contains(group_of->second.group)) {
    return std::vector{self};
  }
  const auto found = groups_.find(group_of->second.group);
  std::vector<Rank> ranks;
  if (found == groups_.end()) {  // the group of all ranks itself
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks.push_back(Rank{static_cast<std::int64_t>(rank)});
    }
    return ranks;
  }
  for (const std::uint64_t member : found->second.members) {
    const std::optional<Rank> rank = found->second.are_locations
                                         ? rank_of(member)
                                         : std::optional(Rank{static_cast<std::int64_t>(member)});
    if (!rank || rank->value < 0 || rank->value >= static_cast<std::int64_t>(ranks_.size())) {
      return std::nullopt;
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

std::string Otf2Definitions::comm_label(std::uint32_t comm) const {
  const auto found = comms_.find(comm);
  if (found == comms_.end() || self_groups_.contains(found->second.group)) {
    return {};
  }
  constexpr std::string_view world = "MPI_COMM_WORLD";
  return text(found->second.name) == world ? std::string(world) : fmt::format("comm {}", comm);
}

bool Otf2Definitions::is_call(std::uint32_t region) const {
  const auto found = call_regions_.find(region);
  return found != call_regions_.end() && found->second;
}

std::string_view Otf2Definitions::text(std::uint32_t string) const {
  const auto found = strings_.find(string);
  return found == strings_.end() ? std::string_view() : std::string_view(found->second);
}

const CallField* Otf2Definitions::field(std::uint32_t attribute) const {
  const auto found = fields_.find(attribute);
  return found == fields_.end() ? nullptr : found->second;
}

bool Otf2Definitions::is_comm_attribute(std::uint32_t attribute) const {
  const CallField* const carried = field(attribute);
  return carried != nullptr && carried->key == "group";
}

std::int64_t Otf2Definitions::ns(std::uint64_t time) const {
  const std::uint64_t ticks = time >= offset_ ? time - offset_ : 0;
  constexpr std::uint64_t second_ns = 1'000'000'000;
  const WideTime exact = static_cast<WideTime>(ticks) * second_ns / ticks_per_second_;
  return static_cast<std::int64_t>(std::min<WideTime>(exact, static_cast<WideTime>(INT64_MAX / 4)));
}

}  // namespace commlens::formats::otf2
