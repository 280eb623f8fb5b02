#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/capture/nccl_stream.hpp"

namespace commlens::capture {

/// What NCCL reports to a member of its communicator.
struct CommIdentity {
  std::uint64_t comm = 0;  // the same for all members, and for no other communicator of the job
  int rank = 0;
  int size = 0;           // 0: not known (profiler interface before v4)
  int device = -1;        // -1: not known
  bool is_agreed = true;  // false: other members may know it by another number
};

/// The arguments of a call, and what the library says of how it is carried out.
struct NcclArguments {
  NcclFunction function = NcclFunction::all_reduce;
  DType dtype = DType::uint8;
  std::size_t count = 0;
  int root_or_peer = 0;
  Reduction reduction = Reduction::unknown;
  Algorithm algorithm = Algorithm::unknown;
  Protocol protocol = Protocol::unknown;
};

/// One communicator as one of its members sees it. All is called in the turn of the member's stream.
class NcclComm {
 public:
  /// `job_ranks`: ranks of the job as far as they are known.
  NcclComm(NcclStream& stream, const CommIdentity& identity, std::int64_t job_ranks);

  NcclStream& stream() const { return stream_; }
  const CommIdentity& identity() const { return identity_; }

  /// Learns from a call how many members there are.
  void learn_size(int size);
  /// A call; std::nullopt if its arguments make no sense.
  std::optional<RecordedCall> call(const NcclArguments& arguments);
  /// Whether a call is a message of this member to itself.
  bool is_to_itself(const NcclArguments& arguments) const;

  /// From now on NCCL reports the kernels of earlier calls as those of later ones.
  void misnumber_kernels() { has_misnumbered_kernels_ = true; }
  bool has_misnumbered_kernels() const { return has_misnumbered_kernels_; }

 private:
  CommunicatorId communicator() const;
  GroupId group();
  GroupId pair(int peer, bool is_to);
  /// Whether all members are known. Looks for them from time to time until they are.
  bool is_resolved();
  Rank member(int rank);
  Rank stranger(int rank);
  GroupOfComm unresolved_group() const;
  int members() const;

  NcclStream& stream_;
  CommIdentity identity_;
  std::int64_t job_ranks_;
  int least_;  // as many members there are at least
  std::vector<std::optional<Rank>> known_;
  bool is_resolved_ = false;
  bool has_misnumbered_kernels_ = false;
  std::int64_t next_look_ns_ = 0;
  std::optional<Rank> strangers_;  // numbers of the members that are not known
  std::optional<GroupId> whole_;   // of the members known by now
  std::map<std::pair<int, bool>, GroupId> pairs_;
};

}  // namespace commlens::capture
