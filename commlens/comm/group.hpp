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
#include "commlens/base/result.hpp"
#include "commlens/comm/axis.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/comm/mesh.hpp"

namespace commlens {

/// Distinguishes communicators of the same members. A communicator has one number, the same for all of its
/// members and in all files of a job; k_no_communicator if the source does not identify it.
enum class CommunicatorId : std::uint64_t {};
constexpr CommunicatorId k_no_communicator{};

/// The number of the communicator called `name` in its source: the same for the same name, k_no_communicator
/// only for an empty name. Inverse of text_of() for the texts that it writes.
CommunicatorId communicator_named(std::string_view name);
/// As in files: "0x" and 16 hexadecimal digits.
std::string text_of(CommunicatorId communicator);
/// The number in such text; std::nullopt if it is none.
std::optional<CommunicatorId> communicator_from(std::string_view text);
/// MPI_COMM_WORLD in recordings of MPI programs: communicator_named("MPI_COMM_WORLD").
CommunicatorId world_communicator();

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
  std::int64_t step = 1;  // of block and stride; divides the size of the axis
  friend auto operator<=>(const Span&, const Span&) = default;
};

struct AxisSpan {
  Axis axis;
  Span span;
  friend auto operator<=>(const AxisSpan&, const AxisSpan&) = default;
};

/// A group described from the point of view of a member, so that one description serves all ranks of a class.
/// A degree of 1 makes a group of the rank alone, and a pair of the rank with itself, both called `self`.
struct GroupPattern {
  enum class Shape : std::uint8_t {
    mesh,     // all ranks whose positions lie in the spans, ascending
    to_next,  // [self, next position]; the ring closes: the next of the last position is the first
    to_previous,
    from_next,  // [next position, self]
    from_previous,
  };
  Shape shape = Shape::mesh;
  Axis axis;                    // what the group is called
  std::vector<AxisSpan> spans;  // of mesh; own position along all other axes
  Axis along;                   // of pairs: the axis of the next and previous position
  std::size_t view = 0;         // of the mesh's views, whose axes these are
  friend auto operator<=>(const GroupPattern&, const GroupPattern&) = default;
};

/// All ranks along these axes, in the first view of the mesh that has all of them, as a group called `axis`.
/// Fails where no view has them.
Result<GroupPattern> pattern_over(const Mesh& mesh, const Axis& axis, std::vector<AxisSpan> spans);
/// A pair with a neighbour along an axis, as a group called by it. Fails where the mesh lacks the axis.
Result<GroupPattern> neighbour_pattern(const Mesh& mesh, const Axis& axis, GroupPattern::Shape shape);

/// The pattern in the one form of all that have the same members on the mesh: spans in the order of the
/// view's axes, none that are the own position alone. Fails where the mesh lacks the view or an axis, where
/// an axis is named twice, and where a step does not divide the size of its axis.
Result<GroupPattern> checked(const Mesh& mesh, GroupPattern pattern);

/// All groups of a trace: patterns (predicted traces) and explicit lists of ranks (recorded ones).
class GroupTable {
 public:
  GroupTable() = default;
  explicit GroupTable(Mesh mesh) : mesh_(std::move(mesh)) {}

  /// Same id for the same group. An explicit list keeps its order (send and recv: source, destination); lists
  /// of the same ranks in different communicators are different groups.
  /// A pattern must fit the mesh (see checked()); aborts otherwise.
  GroupId intern(const GroupPattern& pattern);
  GroupId intern(const std::vector<Rank>& members, const Axis& axis = Axis::unknown,
                 CommunicatorId communicator = k_no_communicator);
  /// A hidden group: `size` >= 1 ranks that the source does not report. Different names are different groups.
  GroupId intern_hidden(std::int64_t size, std::string_view name, const Axis& axis = Axis::unknown);

  /// Members as seen from `self`, in group order; none of a hidden group.
  std::vector<Rank> members(GroupId group, Rank self) const;
  /// Number of members; the same for every rank that uses the group.
  std::int64_t size(GroupId group) const;
  /// Whether the ranks of the group are known.
  bool knows_members(GroupId group) const;
  /// The name of a hidden group in its source; empty for others.
  const std::string& name(GroupId group) const;
  /// The communicator of an explicit list; k_no_communicator of other groups and where it is not known.
  CommunicatorId communicator(GroupId group) const;
  /// The ordinal of a list among the lists of the same ranks along the same axis, in the order of addition:
  /// 1, 2, …; 1 for patterns.
  std::int64_t ordinal(GroupId group) const;
  /// The axis, `self` when the group has one member; valid until the next group is added.
  const Axis& axis(GroupId group) const;
  /// Ranks per node -> members of the group that share a node with `self` (itself included).
  std::int64_t members_on_node(GroupId group, Rank self, std::int64_t ranks_per_node) const;

  std::size_t count() const { return entries_.size(); }
  /// The mesh that patterns refer to; absent for traces of explicit groups.
  const std::optional<Mesh>& mesh() const { return mesh_; }
  /// The pattern of a group, null when it is an explicit list; valid until the next group is added.
  const GroupPattern* pattern(GroupId group) const;

 private:
  struct Entry {
    GroupPattern pattern;
    std::vector<Rank> members;  // explicit groups only
    bool is_explicit = false;
    std::string name;
    CommunicatorId communicator{};
    std::int64_t ordinal = 1;
    std::int64_t size = 0;
  };
  std::vector<Rank> members_of(const GroupPattern& pattern, Rank self) const;

  std::optional<Mesh> mesh_;
  std::vector<Entry> entries_;
  std::map<GroupPattern, GroupId> by_pattern_;
  std::map<std::pair<Axis, std::vector<Rank>>, std::map<CommunicatorId, GroupId>> by_members_;
  std::map<std::tuple<Axis, std::int64_t, std::string>, GroupId> by_name_;
};

}  // namespace commlens
