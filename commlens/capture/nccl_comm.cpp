#include "commlens/capture/nccl_comm.hpp"

#include <algorithm>

#include "commlens/capture/nccl_job.hpp"
#include "commlens/trace/comm_members.hpp"

namespace commlens::capture {
namespace {

constexpr std::int64_t k_look_again_ns = 20'000'000;  // a look is a system call or two
constexpr int k_most_members = 1 << 20;
constexpr int k_most_strangers = 1024;  // of a communicator whose size is not known

}  // namespace

NcclComm::NcclComm(NcclStream& stream, const CommIdentity& identity, std::int64_t job_ranks)
    : stream_(stream), identity_(identity), job_ranks_(job_ranks), least_(identity.rank + 1) {
  publish_member(stream.directory(), identity.comm, identity.rank, stream.self());
}

void NcclComm::learn_size(int size) {
  if (identity_.size == 0 && size > identity_.rank && size <= k_most_members) {
    identity_.size = size;
    next_look_ns_ = 0;
    whole_.reset();
  }
}

int NcclComm::members() const {
  if (identity_.size > 0) {
    return identity_.size;
  }
  return std::max(least_, static_cast<int>(known_.size()));
}

bool NcclComm::is_resolved() {
  if (is_resolved_) {
    return true;
  }
  const std::int64_t now = stream_.now_ns();
  if (now < next_look_ns_) {
    return false;
  }
  next_look_ns_ = now + k_look_again_ns;
  const int most = identity_.size > 0 ? identity_.size : k_most_members;
  std::vector<std::optional<Rank>> members =
      published_members(stream_.directory(), identity_.comm, static_cast<std::size_t>(most));
  const bool is_news = members != known_;
  known_ = std::move(members);
  // Without a size, more members may still come.
  is_resolved_ = static_cast<int>(known_.size()) == identity_.size &&
                 std::all_of(known_.begin(), known_.end(), [](const auto& rank) { return rank.has_value(); });
  if (is_news) {
    whole_.reset();
    pairs_.clear();
  }
  return is_resolved_;
}

Rank NcclComm::member(int rank) {
  if (rank == identity_.rank) {
    return stream_.self();
  }
  const auto at = static_cast<std::size_t>(rank);
  if (at < known_.size()) {
    if (const std::optional<Rank>& known = known_[at]) {
      return *known;
    }
  }
  return stranger(rank);
}

Rank NcclComm::stranger(int rank) {
  const int count = identity_.size > 0 ? identity_.size : k_most_strangers;  // more members may come
  if (!strangers_) {
    strangers_ = stream_.strangers(std::max(count, k_most_strangers) + 1);
  }
  return Rank{strangers_->value + rank % count};
}

GroupOfComm NcclComm::unresolved_group() const {
  return {.comm = identity_.comm,
          .communicator = communicator(),
          .rank = identity_.rank,
          .size = identity_.size,
          .is_likely_world = identity_.size == job_ranks_ && stream_.self().value == identity_.rank};
}

bool NcclComm::is_to_itself(const NcclArguments& arguments) const {
  const bool is_message =
      arguments.function == NcclFunction::send || arguments.function == NcclFunction::recv;
  return is_message && arguments.root_or_peer == identity_.rank;
}

CommunicatorId NcclComm::communicator() const {
  return identity_.is_agreed && identity_.size != 1 ? CommunicatorId{identity_.comm} : k_no_communicator;
}

GroupId NcclComm::group() {
  const bool is_known = is_resolved();
  if (whole_) {
    return *whole_;
  }
  std::vector<Rank> ranks;
  for (int rank = 0; rank < members(); ++rank) {
    ranks.push_back(member(rank));
  }
  if (is_known) {
    const bool is_world = static_cast<std::int64_t>(ranks.size()) == job_ranks_;
    const Axis axis = ranks.size() == 1 ? Axis::self : is_world ? Axis::world : Axis::unknown;
    whole_ = stream_.recorder().group(ranks, axis, communicator());
    return *whole_;
  }
  if (identity_.size == 0) {
    ranks.push_back(Rank{stranger(0).value + k_most_strangers});  // so that it is no other group's list
  }
  whole_ = stream_.unresolved(unresolved_group(), ranks);
  return *whole_;
}

GroupId NcclComm::pair(int peer, bool is_to) {
  is_resolved();
  if (const auto known = pairs_.find({peer, is_to}); known != pairs_.end()) {
    return known->second;
  }
  const Rank here = stream_.self();
  const Rank there = member(peer);
  const std::vector<Rank> ranks = is_to ? std::vector{here, there} : std::vector{there, here};
  const auto at = static_cast<std::size_t>(peer);
  const bool is_known = peer == identity_.rank || (at < known_.size() && known_[at]);
  GroupOfComm unresolved = unresolved_group();
  unresolved.shape = is_to ? GroupOfComm::Shape::to_peer : GroupOfComm::Shape::from_peer;
  unresolved.peer = peer;
  const GroupId group = is_known ? stream_.recorder().group(ranks, Axis::unknown, communicator())
                                 : stream_.unresolved(unresolved, ranks);
  pairs_.emplace(std::pair(peer, is_to), group);
  return group;
}

std::optional<RecordedCall> NcclComm::call(const NcclArguments& arguments) {
  const NcclFunction function = arguments.function;
  const std::size_t count = arguments.count;
  const int root_or_peer = arguments.root_or_peer;
  constexpr std::size_t most_elements = std::size_t{1} << 47;  // 1 PiB of the largest type
  const bool has_root = function == NcclFunction::broadcast || function == NcclFunction::reduce ||
                        function == NcclFunction::gather || function == NcclFunction::scatter;
  const bool has_peer = function == NcclFunction::send || function == NcclFunction::recv;
  const bool is_sized = identity_.size > 0;
  if (count > most_elements / static_cast<std::size_t>(std::max(members(), 1)) ||
      ((has_root || has_peer) && (root_or_peer < 0 || root_or_peer >= k_most_members ||
                                  (is_sized && root_or_peer >= identity_.size)))) {
    return std::nullopt;
  }
  if (has_root && root_or_peer >= least_ && !is_sized) {
    least_ = root_or_peer + 1;
    whole_.reset();
  }
  RecordedCall call;
  call.group = has_peer ? pair(root_or_peer, function == NcclFunction::send) : group();
  const NcclSizes sizes = nccl_sizes(function, count, members(), root_or_peer == identity_.rank);
  call.kind = sizes.kind;
  call.dtype = arguments.dtype;
  call.input = sizes.input;
  call.output = sizes.output;
  call.reduction = is_reducing(call.kind) ? arguments.reduction : Reduction::unknown;
  call.algorithm = arguments.algorithm;
  call.protocol = arguments.protocol;
  call.name = stream_.name(function);
  if (has_root && call.kind != CommKind::other) {
    call.root = GroupRank{root_or_peer};
  }
  const bool depends_on_size = call.kind == CommKind::all_gather || call.kind == CommKind::reduce_scatter ||
                               call.kind == CommKind::all_to_all || call.kind == CommKind::other;
  call.note = depends_on_size && !is_sized ? stream_.note(NcclNote::size_unknown) : NameId{};
  return call;
}

}  // namespace commlens::capture
