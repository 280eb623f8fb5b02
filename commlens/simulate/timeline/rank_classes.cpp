#include "commlens/simulate/timeline/rank_classes.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/units.hpp"
#include "commlens/simulate/timeline/link_classes.hpp"

namespace commlens {
namespace {

using Colours = std::vector<std::uint32_t>;  // by rank

/// A group of ranks that some steps name, with its members.
struct GroupInstance {
  std::vector<Rank> members;
  Placement place;
  std::map<CallPattern, std::size_t> flows = {};  // rows of LinkClasses
};

/// The groups of one id: which of them each rank is in.
struct GroupInstances {
  std::vector<GroupInstance> all;
  std::vector<std::int32_t> of_rank;  // -1: in none
};

/// The ordered pairs that messages go over.
std::set<GroupId> message_groups(const Plan& plan) {
  std::set<GroupId> groups;
  for (const CommOp& op : plan.tables.ops()) {
    if (is_point_to_point(op.kind)) {
      groups.insert(op.group);
    }
  }
  return groups;
}

/// How the calls of each group go over links.
std::map<GroupId, std::set<CallPattern>> call_patterns(const Plan& plan) {
  std::map<GroupId, std::set<CallPattern>> patterns;
  for (const CommOp& op : plan.tables.ops()) {
    if (const std::optional<CallPattern> pattern = pattern_of(op)) {
      patterns[op.group].insert(*pattern);
    }
  }
  return patterns;
}

std::set<GroupId> used_groups(const Plan& plan, const RankClass& ranks) {
  std::set<GroupId> used;
  const auto add = [&](const Program& program) {
    for (const PlanStep& step : program.steps) {
      if (step.kind == PlanStep::Kind::call) {
        used.insert(plan.tables.op(step.op()).group);
      }
    }
  };
  std::for_each(ranks.iterations.begin(), ranks.iterations.end(), add);
  for (const OtherProgram& other : ranks.others) {
    add(other.program);
  }
  return used;
}

class Refinement {
 public:
  Refinement(const Plan& plan, std::int64_t ranks_per_node, const Topology* topology)
      : plan_(plan),
        ranks_per_node_(ranks_per_node),
        topology_(topology),
        messages_(message_groups(plan)),
        colours_(static_cast<std::size_t>(plan.job.layout.ranks)) {
    for (std::size_t row = 0; row < plan.classes.size(); ++row) {
      used_.push_back(used_groups(plan, plan.classes[row]));
      for (const Rank rank : plan.classes[row].ranks) {
        colours_[index(rank)] = static_cast<std::uint32_t>(row);
        for (const GroupId group : used_.back()) {
          add_instance(group, rank);
        }
      }
    }
    plan_classes_ = colours_;
    if (topology != nullptr) {
      links_.emplace(*topology);
      add_flows();
    }
  }

  void separate_all() {
    for (std::size_t rank = 0; rank < colours_.size(); ++rank) {
      colours_[rank] = static_cast<std::uint32_t>(rank);
    }
  }

  void refine() {
    std::pair<std::size_t, std::size_t> before;
    std::pair<std::size_t, std::size_t> count = {renumber(), 0};
    while (count != before) {
      before = count;
      step();
      count = {renumber(), links_ ? links_->count() : 0};
    }
  }

  SimulatedRanks result() {
    SimulatedRanks ranks;
    std::vector<std::vector<Rank>> members(renumber());
    for (std::size_t rank = 0; rank < colours_.size(); ++rank) {
      members[colours_[rank]].push_back(Rank{static_cast<std::int64_t>(rank)});
    }
    for (const std::vector<Rank>& class_members : members) {
      ranks.classes.push_back(class_of(class_members, ranks));
    }
    if (links_) {
      add_loads(ranks);
    }
    return ranks;
  }

 private:
  bool is_message(GroupId group) const { return messages_.count(group) > 0; }
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }

  void add_instance(GroupId group, Rank rank) {
    GroupInstances& instances = instances_[group];
    if (instances.of_rank.empty()) {
      instances.of_rank.assign(colours_.size(), -1);
    }
    if (instances.of_rank[index(rank)] >= 0) {
      return;
    }
    const GroupTable& groups = plan_.tables.groups;
    std::vector<Rank> members = groups.members(group, rank);
    if (members.empty()) {  // a group whose ranks are not known: as if they followed each other
      const std::int64_t size = groups.size(group);
      instances.all.push_back({{rank}, {size, ceil_div(size, ranks_per_node_)}});
      instances.of_rank[index(rank)] = static_cast<std::int32_t>(instances.all.size() - 1);
      return;
    }
    const auto row = static_cast<std::int32_t>(instances.all.size());
    if (is_message(group)) {
      instances.of_rank[index(rank)] = row;
    } else {
      for (const Rank member : members) {
        instances.of_rank[index(member)] = row;
      }
    }
    const Placement place = placement_of(members, ranks_per_node_);
    instances.all.push_back({std::move(members), place});
  }

  /// The colours of an instance's members: of a pair in its order, else each once, ascending.
  std::vector<std::uint32_t> colours_of(GroupId group, const GroupInstance& instance) const {
    std::vector<std::uint32_t> colours;
    for (const Rank member : instance.members) {
      colours.push_back(colours_[index(member)]);
    }
    if (!is_message(group)) {
      std::sort(colours.begin(), colours.end());
      colours.erase(std::unique(colours.begin(), colours.end()), colours.end());
    }
    return colours;
  }

  void add_flows() {
    const std::map<GroupId, std::set<CallPattern>> patterns = call_patterns(plan_);
    for (auto& [group, instances] : instances_) {
      const auto found = patterns.find(group);
      for (GroupInstance& instance : instances.all) {
        if (found != patterns.end() && instance.members.size() > 1) {
          for (const CallPattern pattern : found->second) {
            instance.flows[pattern] =
                links_->add(hops_of(*topology_, instance.members, pattern, instance.place));
          }
        }
      }
    }
  }

  /// What the groups of each channel take of links, with one link for all that are alike.
  void add_loads(SimulatedRanks& ranks) const {
    const std::vector<bool> counts = links_->first_of_each();
    std::set<std::pair<ChannelId, std::vector<Rank>>> messages;  // both ends name them
    std::map<std::tuple<ChannelId, CallPattern, LinkId, std::uint32_t>, std::int64_t> groups;
    for (const auto& [group, instances] : instances_) {
      for (const GroupInstance& instance : instances.all) {
        const auto channel = channels_.find({channel_name(group), colours_of(group, instance)});
        if (instance.members.size() < 2 || channel == channels_.end() ||
            (is_message(group) && !messages.emplace(channel->second, instance.members).second)) {
          continue;
        }
        ranks.channels[channel->second].place = instance.place;
        ranks.channels[channel->second].groups.push_back(instance.members);
        for (const auto& [pattern, row] : instance.flows) {
          for (const LinkClasses::Load& load : links_->loads(row)) {
            if (counts[static_cast<std::size_t>(load.link)]) {
              ++groups[{channel->second, pattern, load.link, load.streams}];
            }
          }
        }
      }
    }
    for (const auto& [load, count] : groups) {
      const auto& [channel, pattern, link, streams] = load;
      ranks.channels[channel].loads[pattern].push_back({link, streams, count});
    }
  }

  /// What a group sees of its members: of a pair in its order, else of each colour once.
  std::uint64_t seen_of_members(GroupId group, const GroupInstance& instance) {
    std::uint64_t seen = 0;
    if (is_message(group)) {
      for (const Rank member : instance.members) {
        seen = scattered(seen + colours_[index(member)]);
      }
      return seen;
    }
    ++stamp_;
    for (const Rank member : instance.members) {
      const std::uint32_t colour = colours_[index(member)];
      if (std::exchange(stamps_[colour], stamp_) != stamp_) {
        seen += scattered(colour);
      }
    }
    return seen;
  }

  /// What a group sees of its members and its links; those that see the same are alike.
  std::uint64_t signature_of(GroupId group, const GroupInstance& instance) {
    const auto ranks = static_cast<std::uint64_t>(instance.place.ranks);
    const auto nodes = static_cast<std::uint64_t>(instance.place.nodes);
    std::uint64_t signature = scattered(seen_of_members(group, instance) + scattered((ranks << 32U) + nodes));
    for (const auto& [pattern, row] : instance.flows) {
      signature = scattered(signature + links_->seen_by(row));
    }
    return signature;
  }

  /// New colours by what ranks see of the old ones, as hashes of 64 bits.
  void step() {
    std::vector<std::uint64_t> row_colours(links_ ? links_->rows() : 0);
    stamps_.assign(colours_.size(), 0);
    std::vector<std::uint64_t> next(colours_.begin(), colours_.end());
    for (auto& [group, instances] : instances_) {
      const std::uint64_t name = scattered(static_cast<std::uint64_t>(group));
      std::vector<std::uint64_t> signatures;
      for (const GroupInstance& instance : instances.all) {
        signatures.push_back(scattered(name + signature_of(group, instance)));
        for (const auto& [pattern, row] : instance.flows) {
          row_colours[row] = scattered(signatures.back() + static_cast<std::uint64_t>(pattern));
        }
      }
      std::vector<bool> is_used;  // by plan class
      for (const std::set<GroupId>& used : used_) {
        is_used.push_back(used.contains(group));
      }
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        const std::int32_t row = instances.of_rank[rank];
        if (row >= 0 && is_used[plan_classes_[rank]]) {
          next[rank] = scattered(next[rank] + signatures[static_cast<std::size_t>(row)]);
        }
      }
    }
    if (links_) {
      links_->refine(row_colours);
    }
    std::unordered_map<std::uint64_t, std::uint32_t> known;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      colours_[rank] = known.emplace(next[rank], static_cast<std::uint32_t>(known.size())).first->second;
    }
  }

  /// Colours from 0 in the order of the first rank that has each; how many there are.
  std::size_t renumber() {
    std::map<std::uint32_t, std::uint32_t> numbers;
    for (std::uint32_t& colour : colours_) {
      colour = numbers.emplace(colour, static_cast<std::uint32_t>(numbers.size())).first->second;
    }
    return numbers.size();
  }

  SimulatedClass class_of(const std::vector<Rank>& members, SimulatedRanks& ranks) {
    SimulatedClass result;
    const std::size_t first = index(members.front());
    result.plan_class = plan_classes_[first];
    result.ranks = ranges_of(members);
    result.count = static_cast<std::int64_t>(members.size());
    for (const GroupId group : used_[result.plan_class]) {
      const GroupInstances& instances = instances_.at(group);
      const GroupInstance& instance = instances.all[static_cast<std::size_t>(instances.of_rank[first])];
      if (instance.place.ranks > 1) {
        result.groups.emplace(group, seen_group(group, instance, ranks));
      }
    }
    return result;
  }

  ClassGroup seen_group(GroupId group, const GroupInstance& instance, SimulatedRanks& ranks) {
    ClassGroup seen;
    seen.place = instance.place;
    seen.sharers = sharers_of(instance.place, ranks_on_node());
    const std::vector<std::uint32_t> colours = colours_of(group, instance);
    const auto [found, is_new] = channels_.emplace(std::pair(channel_name(group), colours),
                                                   static_cast<ChannelId>(ranks.channels.size()));
    if (is_new) {
      ranks.channels.push_back({.classes = colours, .is_message = is_message(group)});
    }
    seen.channel = found->second;
    return seen;
  }

  std::int64_t ranks_on_node() const {
    return std::min<std::int64_t>(ranks_per_node_, static_cast<std::int64_t>(colours_.size()));
  }

  /// The same of both ends of a message: its pair as its sender sees it. Of two positions each is next to the
  /// other both ways; there the ends' classes tell directions apart.
  std::string channel_name(GroupId group) const {
    const GroupPattern* const pattern = plan_.tables.groups.pattern(group);
    if (pattern == nullptr || pattern->shape == GroupPattern::Shape::mesh) {
      return std::to_string(static_cast<std::uint32_t>(group));
    }
    const bool is_forward = pattern->shape == GroupPattern::Shape::to_next ||
                            pattern->shape == GroupPattern::Shape::from_previous;
    const std::string_view way = positions_along(*pattern) == 2 ? " between "
                                 : is_forward                   ? " forward "
                                                                : " backward ";
    return fmt::format("{}{}{}", pattern->along.name(), way, pattern->view);
  }

  std::int64_t positions_along(const GroupPattern& pattern) const {
    const std::optional<Mesh>& mesh = plan_.tables.groups.mesh();
    if (!mesh) {
      return 0;
    }
    const MeshView& view = mesh->views().at(pattern.view);
    const std::optional<std::size_t> axis = view.find(pattern.along);
    return axis ? view.axes().at(*axis).size : 0;
  }

  static std::vector<RankRange> ranges_of(const std::vector<Rank>& members);

  const Plan& plan_;
  std::int64_t ranks_per_node_;
  const Topology* topology_;
  std::optional<LinkClasses> links_;
  std::set<GroupId> messages_;
  std::vector<std::set<GroupId>> used_;  // by plan class
  std::map<GroupId, GroupInstances> instances_;
  Colours colours_;
  Colours plan_classes_;
  std::vector<std::uint64_t> stamps_;  // by colour: the last group that has seen it
  std::uint64_t stamp_ = 0;
  std::map<std::pair<std::string, std::vector<std::uint32_t>>, ChannelId> channels_;
};

/// One range where the ranks have the pattern of one, else their runs.
std::vector<RankRange> Refinement::ranges_of(const std::vector<Rank>& members) {
  std::vector<RankRange> runs;
  for (const Rank rank : members) {
    if (!runs.empty() && runs.back().last.value + 1 == rank.value) {
      runs.back().last = rank;
    } else {
      runs.push_back({rank, rank});
    }
  }
  if (runs.size() < 2) {
    return runs;
  }
  const std::int64_t block = runs[0].last.value - runs[0].first.value + 1;
  const std::int64_t every = runs[1].first.value - runs[0].first.value;
  const RankRange one{runs.front().first, runs.back().last, block, every};
  const bool is_one = std::all_of(runs.begin(), runs.end(), [&](const RankRange& run) {
    return (run.first.value - runs[0].first.value) % every == 0 &&
           run.last.value - run.first.value + 1 == block;
  });
  return is_one && one.count() == static_cast<std::int64_t>(members.size()) ? std::vector<RankRange>{one}
                                                                            : runs;
}

}  // namespace

SimulatedRanks simulated_ranks(const Plan& plan, std::int64_t ranks_per_node, bool collapse,
                               const Topology* topology) {
  COMMLENS_CHECK(ranks_per_node > 0, "nodes have ranks");
  Refinement refinement(plan, ranks_per_node, topology);
  if (!collapse) {
    refinement.separate_all();
  }
  if (collapse || topology != nullptr) {  // links of separate ranks have classes too
    refinement.refine();
  }
  return refinement.result();
}

}  // namespace commlens
