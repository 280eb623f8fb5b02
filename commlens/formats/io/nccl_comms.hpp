#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/formats/io/nccl_lines.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// The communicators of a log as one rank each holds them, and what is known of their ranks.
class NcclComms {
 public:
  /// Row of a communicator, one rank's end of it.
  using Row = std::uint32_t;

  /// `is_torn_text`: the rest of a broken line may stand right before the name of a process.
  explicit NcclComms(bool is_torn_text) : is_torn_text_(is_torn_text) {}

  /// Remembers who prints, which distinguishes a process from the rest of a broken line before its name.
  void see(const NcclPrinter& printer) { process_of(printer); }

  /// Remembers a communicator's line.
  void describe(const NcclPrinter& printer, const NcclCommLine& line);

  /// The communicator a call was made on, which no line may have described.
  Row of_call(const NcclPrinter& printer, const NcclCallLine& call);

  /// Gives every rank its number, once the log is read. Returns how many got one of ours, because the log
  /// does not say theirs.
  std::int64_t number_ranks();

  /// After number_ranks: whose end it is.
  Rank owner(Row row) const;
  /// After number_ranks: the global rank of a rank of the communicator, where it is known.
  std::optional<Rank> member(Row row, std::int64_t rank) const;
  /// After number_ranks: the group of a communicator in `groups`, which is the same table in every call;
  /// hidden when not all members are known.
  GroupId group(Row row, GroupTable& groups);
  /// After number_ranks: the group of a send or receive whose other side is rank `peer` of the communicator;
  /// hidden when it is not known.
  GroupId pair(Row row, CommKind kind, std::int64_t peer, GroupTable& groups) const;
  /// After number_ranks: what distinguishes the communicator from others of the same ranks, where all its
  /// members have shown its id; that of a hidden group of this name once its ranks are found.
  CommunicatorId communicator(Row row) const;
  /// What the source calls the communicator: its id on all ranks, or its place in one process.
  std::string name(Row row) const;
  std::int64_t size(Row row) const { return comms_[row].ranks; }

 private:
  struct Comm {
    std::string process;
    std::string pointer;
    std::int64_t ranks = 0;
    std::optional<std::int64_t> rank;  // in the communicator
    std::string reported_id;           // as its lines have it; empty when not known
    std::string id;                    // the same on all members and of no other communicator, or empty
    std::uint32_t owner = 0;           // row of owners_
    NcclCommLine::Moment moment = NcclCommLine::Moment::unknown;  // the latest that a line reported
  };
  struct Owner {
    std::optional<std::int64_t> rank;
    bool is_reported = false;  // by RCCL itself
  };

  const std::string& process_of(const NcclPrinter& printer);
  std::uint32_t owner_of(const std::string& process, std::int64_t device);
  std::string id_of(const std::string& process, const NcclCommLine& line) const;
  std::string unique_id(const std::string& process, const std::string& reported, std::int64_t rank);
  static bool is_line_of(const Comm& comm, const NcclCommLine& line, const std::string& id);
  Row add(const std::string& process, std::string_view pointer, std::int64_t ranks, std::int64_t device);
  std::string world_id(std::int64_t size) const;
  void number_by_world();
  bool is_of_world(const Comm& comm) const;
  bool is_complete(const Comm& comm) const;
  std::vector<Rank> members(Row row) const;
  GroupId made_group(Row row, GroupTable& groups) const;

  bool is_torn_text_;
  std::vector<Comm> comms_;
  std::vector<Owner> owners_;
  std::map<std::pair<std::string, std::int64_t>, std::uint32_t> owner_rows_;  // process, device
  std::unordered_map<std::string, Row> rows_;                                 // "process pointer"
  std::unordered_map<std::string, std::string> processes_;                    // as printed -> host:pid
  // Process, reported id and rank -> how many communicators had them.
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::int64_t> uses_of_ids_;
  std::map<std::string, std::map<std::int64_t, Rank>> members_;  // id -> rank in it -> rank
  std::unordered_map<Row, GroupId> groups_of_rows_;
  std::map<std::pair<std::string, std::int64_t>, GroupId> whole_groups_;  // id, ranks
  std::int64_t world_ = 0;  // ranks of the communicator that numbers the ranks; 0: there is none
};

}  // namespace commlens::formats
