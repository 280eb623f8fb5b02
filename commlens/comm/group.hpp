#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// The dimension of a layout that a group runs along (docs/glossary.md).
/// model = tensor x pipeline of one replica; self = a group of one rank.
enum class Axis : std::uint8_t { unknown, dp, tp, sp, pp, cp, ep, edp, model, world, self };
std::string_view name_of(Axis axis);

/// Tells communicators of the same members apart. A communicator has one number, the same for all of its
/// members and in all files of a job; k_no_communicator where the source does not say which one it is.
enum class CommunicatorId : std::uint64_t {};
constexpr CommunicatorId k_no_communicator{};

/// The number of the communicator that a source knows by `name`, the same for the same name and never
/// k_no_communicator; that only for an empty name. Text that text_of() made gives its number back.
CommunicatorId communicator_named(std::string_view name);
/// As files have it: "0x" and 16 hexadecimal digits.
std::string text_of(CommunicatorId communicator);
/// The number in such text; nothing when it is none.
std::optional<CommunicatorId> communicator_from(std::string_view text);
/// MPI_COMM_WORLD in recordings of MPI programs: communicator_named("MPI_COMM_WORLD").
CommunicatorId world_communicator();

/// Where a rank stands. Pipeline is the slowest axis, tensor the fastest:
/// rank = (pipeline * data_size + data) * tensor_size + tensor.
/// Source: DeepSpeed runtime/pipe/topology.py:PipeModelDataParallelTopology, Megatron core/parallel_state.py.
struct Coordinates {
  std::int64_t pipeline = 0;
  std::int64_t data = 0;
  std::int64_t tensor = 0;
  friend auto operator<=>(const Coordinates&, const Coordinates&) = default;
};

/// Sizes of the three axes, each >= 1.
struct Mesh {
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  constexpr std::int64_t ranks() const { return pipeline * data * tensor; }
  Rank rank(Coordinates where) const;
  Coordinates coordinates(Rank rank) const;
  friend auto operator<=>(const Mesh&, const Mesh&) = default;
};

/// Which positions along one axis belong to a rank's group, seen from that rank.
struct Span {
  enum class Shape : std::uint8_t {
    own,     // its own position only
    all,     // every position
    block,   // `step` consecutive positions: [own / step * step, … + step)
    stride,  // every `step`-th position: those with the same remainder
    ends,    // the first and the last position
  };
  Shape shape = Shape::own;
  std::int64_t step = 1;
  friend auto operator<=>(const Span&, const Span&) = default;
};

/// A group described from the point of view of a member, so that one description serves all ranks of a class.
struct GroupPattern {
  enum class Shape : std::uint8_t {
    mesh,     // all ranks whose coordinates lie in the three spans, ascending
    to_next,  // [self, next stage]; the ring closes: the next of the last stage is the first
    to_previous,
    from_next,  // [next stage, self]
    from_previous,
  };
  Shape shape = Shape::mesh;
  Axis axis = Axis::unknown;
  Span pipeline;
  Span data;
  Span tensor;
  friend auto operator<=>(const GroupPattern&, const GroupPattern&) = default;
};

/// All groups of a trace: patterns (predicted traces) and explicit lists of ranks (recorded ones).
class GroupTable {
 public:
  GroupTable() = default;
  explicit GroupTable(Mesh mesh) : mesh_(mesh), has_mesh_(true) {}

  /// Same id for the same group. An explicit list keeps its order (send and recv: source, destination); lists
  /// of the same ranks in different communicators are different groups.
  GroupId intern(const GroupPattern& pattern);
  GroupId intern(const std::vector<Rank>& members, Axis axis = Axis::unknown,
                 CommunicatorId communicator = k_no_communicator);
  /// A group of `size` >= 1 ranks that the source does not tell; groups of another name are others.
  GroupId intern_hidden(std::int64_t size, std::string_view name, Axis axis = Axis::unknown);

  /// Members as seen from `self`, in group order; none of a hidden group.
  std::vector<Rank> members(GroupId group, Rank self) const;
  /// Number of members; the same for every rank that uses the group.
  std::int64_t size(GroupId group) const;
  /// Whether the source told the ranks of the group.
  bool knows_members(GroupId group) const;
  /// What the source calls a hidden group; empty for others.
  const std::string& name(GroupId group) const;
  /// The communicator of an explicit list; k_no_communicator of other groups and where it is not known.
  CommunicatorId communicator(GroupId group) const;
  /// Which of the lists of these ranks along this axis it is, in the order in which they were added: 1, 2, …;
  /// 1 of groups that are no list.
  std::int64_t ordinal(GroupId group) const;
  /// The axis, `self` when the group has one member.
  Axis axis(GroupId group) const;
  /// Ranks per node -> members of the group that share a node with `self` (itself included).
  std::int64_t members_on_node(GroupId group, Rank self, std::int64_t ranks_per_node) const;

  std::size_t count() const { return entries_.size(); }
  /// The mesh that patterns refer to; absent for traces of explicit groups.
  std::optional<Mesh> mesh() const { return has_mesh_ ? std::optional<Mesh>(mesh_) : std::nullopt; }
  /// The pattern of a group, absent when it is an explicit list.
  std::optional<GroupPattern> pattern(GroupId group) const;

 private:
  struct Entry {
    GroupPattern pattern;
    std::vector<Rank> members;  // explicit groups only
    bool is_explicit = false;
    std::int64_t hidden = 0;  // members of a hidden group, which is explicit and has none listed
    std::string name;
    CommunicatorId communicator{};
    std::int64_t ordinal = 1;
  };
  Mesh mesh_;
  bool has_mesh_ = false;
  std::vector<Entry> entries_;
  std::map<GroupPattern, GroupId> by_pattern_;
  std::map<std::pair<Axis, std::vector<Rank>>, std::map<CommunicatorId, GroupId>> by_members_;
  std::map<std::tuple<Axis, std::int64_t, std::string>, GroupId> by_name_;
};

}  // namespace commlens
