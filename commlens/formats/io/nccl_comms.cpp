#include "commlens/formats/io/nccl_comms.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "commlens/trace/json_text.hpp"

namespace commlens::formats {

/// The rest of a broken line may stand right before the host. A process that prints a second line is known by
/// then, so a name after other text that ends with a known one is that process.
const std::string& NcclComms::process_of(const NcclPrinter& printer) {
  constexpr std::size_t longest_name = 300;  // a host has at most 253 characters
  const std::string_view process = printer.process;
  const auto found = processes_.find(std::string(process));
  if (found != processes_.end()) {
    return found->second;
  }
  std::string name(process);
  if (is_torn_text_ && printer.is_behind_text) {
    const std::size_t colon = process.rfind(':');
    const std::size_t first = process.size() > longest_name ? process.size() - longest_name : 1;
    for (std::size_t start = first; start < colon && start < process.size(); ++start) {
      if (const auto known = processes_.find(std::string(process.substr(start))); known != processes_.end()) {
        name = known->second;
        break;
      }
    }
  }
  return processes_.emplace(process, std::move(name)).first->second;
}

std::uint32_t NcclComms::owner_of(const std::string& process, std::int64_t device) {
  const auto [found, added] =
      owner_rows_.try_emplace({process, device}, static_cast<std::uint32_t>(owners_.size()));
  if (added) {
    owners_.emplace_back();
  }
  return found->second;
}

/// Parts of a split share the parent's id or have none of their own; which split and which part tell them
/// apart.
std::string NcclComms::id_of(const std::string& process, const NcclCommLine& line) const {
  if (!line.id.empty()) {
    return line.color.empty() ? std::string(line.id) : fmt::format("{} part {}", line.id, line.color);
  }
  if (line.parent.empty() || line.color.empty()) {
    return {};
  }
  const auto parent = rows_.find(fmt::format("{} {}", process, line.parent));
  if (parent == rows_.end() || comms_[parent->second].id.empty()) {
    return {};
  }
  return fmt::format("{} split {} part {}", comms_[parent->second].id, line.split, line.color);
}

NcclComms::Row NcclComms::add(const std::string& process, std::string_view pointer, std::int64_t ranks,
                              std::int64_t device) {
  const auto row = static_cast<Row>(comms_.size());
  rows_.insert_or_assign(fmt::format("{} {}", process, pointer), row);
  const std::uint32_t owner = owner_of(process, device);
  comms_.push_back({.process = process,
                    .pointer = std::string(pointer),
                    .ranks = ranks,
                    .rank = std::nullopt,
                    .reported_id = {},
                    .id = {},
                    .owner = owner});
  return row;
}

/// NCCL 2.18 gives the same commId to all splits of one parent by one color. Making a communicator is a
/// collective call, so the n-th one of an id is the same on all its members.
std::string NcclComms::unique_id(const std::string& process, const std::string& reported, std::int64_t rank) {
  if (reported.empty()) {
    return {};
  }
  const std::int64_t use = ++uses_of_ids_[{process, reported, rank}];
  return use == 1 ? reported : fmt::format("{} #{}", reported, use);
}

/// Whether a line whose pointer is that of `comm` is about it. A pointer is used again for the next
/// communicator; the line of a destroyed one may come after the first line of that.
bool NcclComms::is_line_of(const Comm& comm, const NcclCommLine& line, const std::string& id) {
  using Moment = NcclCommLine::Moment;
  const bool is_making = line.moment == Moment::start || line.moment == Moment::complete;
  const bool is_next = (comm.moment == Moment::end && is_making) ||
                       (comm.moment == Moment::complete && line.moment == Moment::start);
  if (comm.ranks != line.ranks || (comm.rank && comm.rank != line.rank) || is_next) {
    return false;
  }
  // The second line of a split says neither parent nor color in NCCL 2.18.
  const bool is_second = comm.moment == Moment::start && line.moment == Moment::complete;
  return is_second || comm.reported_id.empty() || id.empty() || comm.reported_id == id;
}

void NcclComms::describe(const NcclPrinter& printer, const NcclCommLine& line) {
  const std::string& process = process_of(printer);
  const std::string id = id_of(process, line);
  const auto found = rows_.find(fmt::format("{} {}", process, line.comm));
  const bool is_known = found != rows_.end() && is_line_of(comms_[found->second], line, id);
  Comm& comm = comms_[is_known ? found->second
                               : add(process, line.comm, line.ranks, line.device.value_or(printer.device))];
  comm.rank = line.rank;
  if (comm.reported_id.empty()) {
    comm.reported_id = id;
    comm.id = unique_id(process, id, line.rank);
  }
  const bool is_of_one_before =
      comm.moment == NcclCommLine::Moment::start && line.moment == NcclCommLine::Moment::end;
  if (line.moment != NcclCommLine::Moment::unknown && !is_of_one_before) {
    comm.moment = line.moment;
  }
}

NcclComms::Row NcclComms::of_call(const NcclPrinter& printer, const NcclCallLine& call) {
  const std::string& process = process_of(printer);
  const auto found = rows_.find(fmt::format("{} {}", process, call.comm));
  const Row row = found != rows_.end() && comms_[found->second].ranks == call.ranks
                      ? found->second
                      : add(process, call.comm, call.ranks, printer.device);
  if (call.global_rank && *call.global_rank >= 0 && *call.global_rank < k_max_ranks) {
    owners_[comms_[row].owner] = {call.global_rank, true};
  }
  return row;
}

/// Of the communicators of `size` ranks the one that most owners are in, the first of them on a tie.
std::string NcclComms::world_id(std::int64_t size) const {
  std::map<std::string, std::set<std::uint32_t>> owners;
  for (const Comm& comm : comms_) {
    if (comm.rank && comm.ranks == size) {
      owners[comm.id].insert(comm.owner);
    }
  }
  std::string best;
  std::size_t most = 0;
  for (const Comm& comm : comms_) {
    if (comm.rank && comm.ranks == size && owners[comm.id].size() > most) {
      most = owners[comm.id].size();
      best = comm.id;
    }
  }
  return best;
}

/// The largest communicator is assumed to be the one of all ranks, unless its ranks contradict each other.
void NcclComms::number_by_world() {
  std::int64_t largest = 0;
  for (const Comm& comm : comms_) {
    largest = std::max(largest, comm.rank ? comm.ranks : 0);
  }
  const std::string id = world_id(largest);
  std::map<std::uint32_t, std::int64_t> numbers;
  std::set<std::int64_t> used;
  for (const Comm& comm : comms_) {
    if (comm.rank && comm.ranks == largest && comm.id == id &&
        numbers.emplace(comm.owner, *comm.rank).second && !used.insert(*comm.rank).second) {
      return;
    }
  }
  const bool is_reported =
      std::any_of(owners_.begin(), owners_.end(), [](const Owner& owner) { return owner.is_reported; });
  if (is_reported || largest == 0) {
    return;
  }
  for (const auto& [owner, rank] : numbers) {
    owners_[owner].rank = rank;
  }
  world_ = largest;
}

std::int64_t NcclComms::number_ranks() {
  number_by_world();
  std::set<std::int64_t> used;
  for (Owner& owner : owners_) {
    if (owner.rank && !used.insert(*owner.rank).second) {
      owner.rank.reset();  // a second process of that rank: another job in the same file
    }
  }
  std::int64_t numbered = 0;
  std::int64_t next = 0;
  for (Owner& owner : owners_) {
    if (!owner.rank) {
      while (used.contains(next)) {
        ++next;
      }
      owner.rank = next++;
      ++numbered;
    }
  }
  for (Row row = 0; row < comms_.size(); ++row) {
    const Comm& comm = comms_[row];
    if (comm.rank && !comm.id.empty()) {
      members_[comm.id].emplace(*comm.rank, owner(row));
    }
  }
  return numbered;
}

Rank NcclComms::owner(Row row) const { return Rank{owners_[comms_[row].owner].rank.value_or(0)}; }

bool NcclComms::is_of_world(const Comm& comm) const {
  return comm.ranks == world_ && comm.rank == owners_[comm.owner].rank;
}

std::optional<Rank> NcclComms::member(Row row, std::int64_t rank) const {
  const Comm& comm = comms_[row];
  if (rank < 0 || rank >= comm.ranks) {
    return std::nullopt;
  }
  if (comm.rank == rank || comm.ranks == 1) {
    return owner(row);
  }
  if (const auto group = members_.find(comm.id); group != members_.end()) {
    if (const auto found = group->second.find(rank); found != group->second.end()) {
      return found->second;
    }
  }
  return is_of_world(comm) ? std::optional(Rank{rank}) : std::nullopt;
}

bool NcclComms::is_complete(const Comm& comm) const {
  const auto group = members_.find(comm.id);
  return group != members_.end() && static_cast<std::int64_t>(group->second.size()) == comm.ranks;
}

GroupId NcclComms::pair(Row row, CommKind kind, std::int64_t peer, GroupTable& groups) const {
  const bool sends = kind == CommKind::send;
  const Rank self = owner(row);
  const std::optional<Rank> other = member(row, peer);
  if (!other) {
    return groups.intern_hidden(2,
                                fmt::format("{} {} {}", valid_utf8(name(row)), sends ? "to" : "from", peer));
  }
  return groups.intern(sends ? std::vector{self, *other} : std::vector{*other, self}, Axis::unknown,
                       communicator(row));
}

CommunicatorId NcclComms::communicator(Row row) const {
  const Comm& comm = comms_[row];
  const bool is_agreed = comm.ranks > 1 && !comm.id.empty() && is_complete(comm);
  return is_agreed ? communicator_named(valid_utf8(name(row))) : k_no_communicator;
}

/// All members, ascending; none when not all are known.
std::vector<Rank> NcclComms::members(Row row) const {
  const Comm& comm = comms_[row];
  std::vector<Rank> ranks;
  // Alone, a process does not show that its largest communicator is the one of all ranks.
  const bool is_world = is_of_world(comm) && static_cast<std::int64_t>(owners_.size()) == world_;
  if (comm.ranks == 1) {
    return {owner(row)};
  }
  if (!is_complete(comm) && !is_world) {
    return {};
  }
  for (std::int64_t rank = 0; rank < comm.ranks; ++rank) {
    ranks.push_back(member(row, rank).value_or(Rank{rank}));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const bool is_whole = static_cast<std::int64_t>(ranks.size()) == comm.ranks &&
                        std::binary_search(ranks.begin(), ranks.end(), owner(row));
  return is_whole ? ranks : std::vector<Rank>{};
}

GroupId NcclComms::made_group(Row row, GroupTable& groups) const {
  const std::vector<Rank> ranks = members(row);
  return ranks.empty() ? groups.intern_hidden(size(row), valid_utf8(name(row)))
                       : groups.intern(ranks, Axis::unknown, communicator(row));
}

GroupId NcclComms::group(Row row, GroupTable& groups) {
  const auto [found, added] = groups_of_rows_.try_emplace(row);
  if (!added) {
    return found->second;
  }
  const Comm& comm = comms_[row];
  const auto listed = members_.find(comm.id);
  // Of the ends of a communicator whose members are all listed those that are among them have one group,
  // which is made once: of a large job there are as many as ranks.
  if (listed != members_.end() && comm.rank && listed->second.at(*comm.rank) == owner(row) &&
      static_cast<std::int64_t>(listed->second.size()) == comm.ranks) {
    const auto [whole, is_first] = whole_groups_.try_emplace({comm.id, comm.ranks});
    if (is_first) {
      whole->second = made_group(row, groups);
    }
    found->second = whole->second;
  } else {
    found->second = made_group(row, groups);
  }
  return found->second;
}

std::string NcclComms::name(Row row) const {
  const Comm& comm = comms_[row];
  return comm.id.empty() ? fmt::format("{} comm {}", comm.process, comm.pointer) : "commId " + comm.id;
}

}  // namespace commlens::formats
