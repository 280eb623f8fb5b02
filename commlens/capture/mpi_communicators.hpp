#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "commlens/capture/mpi_api.hpp"
#include "commlens/comm/group.hpp"

namespace commlens::capture {

/// Numbers the program's communicators so that all members of one give it the same number, without a message.
/// MPI asks that all members make the communicators of one parent in the same order, so the number comes from
/// the parent's and from how many were made of it before; where only some members of the parent take part, or
/// two groups that have no common parent, from who takes part and how many such were made before.
///
/// A program may make communicators for ever, and each number costs rows of the recording's tables. So
/// numbers come back: those of communicators of one parent after k_most_of_one_parent, those of ever deeper
/// descendants after k_most_generations. Only then can two that live at the same time have one number.
class CommunicatorNumbers {
 public:
  static constexpr std::uint64_t k_most_of_one_parent = 256;
  static constexpr std::uint64_t k_most_generations = 256;

  CommunicatorNumbers();

  /// A communicator was made of `parent` by all of its members; `made` is MPI_COMM_NULL on those that are in
  /// none.
  void made_by_all(MPI_Comm parent, MPI_Comm made);
  /// Members of `parent` that are `group` have made one; `tag` distinguishes such calls at the same time.
  void made_by_part(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm made);
  /// Processes that need no common communicator have made one; `word` is the same for all of them.
  void made_by_members(MPI_Comm made, std::string_view word);

  /// The number of the communicator, before its members are looked at; 0: not known.
  std::uint64_t number(std::uint64_t key) const;
  void forget(std::uint64_t key) { known_.erase(key); }

 private:
  struct Known {
    std::uint64_t number = 0;
    std::uint64_t generation = 0;
    std::uint64_t made = 0;  // communicators made of it by all of its members
  };
  void add(MPI_Comm made, Known known);
  Known* of(MPI_Comm comm);

  std::unordered_map<std::uint64_t, Known> known_;     // by handle
  std::map<std::uint64_t, std::uint64_t> made_alone_;  // what distinguishes those without order -> how many
};

/// The number that is in the trace: that of the communicator and its lowest rank, so that the parts that
/// one call divides a communicator into have numbers of their own.
CommunicatorId communicator_id(std::uint64_t number, std::int64_t lowest_rank);

}  // namespace commlens::capture
