#include "commlens/formats/io/schedule_planner.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace commlens::formats {
namespace {

constexpr std::uint64_t k_hash_factor = 0x9E3779B97F4A7C15;

std::uint64_t hash_of(const CallSignature& signature) {
  std::uint64_t hash = static_cast<std::uint64_t>(signature.kind) + 1;
  for (const std::int64_t part : {signature.bytes, signature.root}) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * k_hash_factor;
    hash ^= hash >> 29U;
  }
  return hash;
}

/// Positions of `values` in the order of `key`.
template <typename Value, typename Key>
std::vector<std::uint32_t> sorted_by(const std::vector<Value>& values, const Key& key) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(values[a]) < key(values[b]); });
  return order;
}

}  // namespace

void SchedulePlanner::plan() {
  for (const RankStream& stream : trace_.streams) {
    for (const Rank rank : stream.ranks) {
      collect(stream, rank);
    }
  }
  schedule_.mismatch_ = pairs_mismatch();
  if (!schedule_.mismatch_) {
    schedule_.mismatch_ = groups_mismatch();
  }
  if (schedule_.mismatch_) {
    schedule_.pair_ids_.clear();
    schedule_.pairs_.clear();
    return;
  }
  match_messages();
  add_series();
}

SchedulePlanner::Target SchedulePlanner::target_of(const CommOp& op, Rank rank) {
  if (op.kind == CommKind::other || !trace_.groups.knows_members(op.group)) {
    return {};
  }
  std::vector<Rank> members = trace_.groups.members(op.group, rank);
  if (!is_point_to_point(op.kind) && members.size() < 2) {
    return {};
  }
  if (!is_point_to_point(op.kind)) {
    GroupKey key{trace_.groups.communicator(op.group), std::move(members)};
    return {.group = &*groups_.try_emplace(std::move(key)).first};
  }
  if (members.size() != 2 || members[0] == members[1]) {
    return {};
  }
  const auto next = static_cast<std::uint32_t>(schedule_.pairs_.size());
  const auto [found, added] = schedule_.pair_ids_.try_emplace({members[0], members[1]}, next);
  if (added) {
    schedule_.pairs_.push_back({members[0], members[1]});
    messages_.emplace_back();
  }
  return {.pair = found->second, .is_message = true};
}

void SchedulePlanner::collect(const RankStream& stream, Rank rank) {
  std::unordered_map<std::uint32_t, Target> targets;  // by op
  const CallOrder& order = schedule_.order(stream);
  for (std::uint32_t position = 0; position < order.calls(); ++position) {
    const OpId id = stream.events[order.row(position)].op;
    const CommOp& op = trace_.op(id);
    const auto [found, added] = targets.try_emplace(static_cast<std::uint32_t>(id));
    if (added) {
      found->second = target_of(op, rank);
    }
    if (found->second.is_message) {
      collect_message(op, found->second.pair, order.waited_at(position));
    } else if (found->second.group != nullptr) {
      collect_collective(op, found->second.group->second, rank, position, order.waited_at(position));
    }
  }
}

void SchedulePlanner::collect_message(const CommOp& op, std::uint32_t pair, std::uint32_t waited_at) {
  const CommunicatorId communicator = trace_.groups.communicator(op.group);
  if (op.kind == CommKind::send) {
    ++schedule_.pairs_[pair].sends;
    messages_[pair].sends.push_back({communicator, (op.input * op.dtype).value});
  } else {
    ++schedule_.pairs_[pair].receives;
    messages_[pair].receives.push_back({communicator, (op.output * op.dtype).value, waited_at});
  }
}

void SchedulePlanner::collect_collective(const CommOp& op, Group& group, Rank rank, std::uint32_t position,
                                         std::uint32_t waited_at) {
  Member& member = group.callers[rank];
  const CallSignature signature = signature_of(op);
  group.overlaps = group.overlaps || (member.calls > 0 && member.busy_until > position);
  member.busy_until = std::max(member.busy_until, waited_at);
  member.order = (member.order ^ hash_of(signature)) * k_hash_factor;
  if (op.kind == CommKind::all_to_all) {
    const CallSignature sized{op.kind, (op.input * op.dtype).value, 0};
    member.exchanges = (member.exchanges ^ hash_of(sized)) * k_hash_factor;
  }
  ++member.calls;
  ++member.by_signature[signature];
}

std::optional<std::string> SchedulePlanner::pairs_mismatch() const {
  for (const MessagePair& pair : schedule_.pairs_) {
    if (pair.sends != pair.receives) {
      return fmt::format("rank {} sends {} messages to rank {}, which receives {} of them", pair.source.value,
                         pair.sends, pair.destination.value, pair.receives);
    }
  }
  return std::nullopt;
}

std::optional<std::string> SchedulePlanner::groups_mismatch() const {
  for (const auto& [key, group] : groups_) {
    const std::vector<Rank>& members = key.second;
    const auto& [first_rank, first] = *group.callers.begin();
    for (const Rank rank : members) {
      const auto found = group.callers.find(rank);
      const std::uint32_t made = found == group.callers.end() ? 0 : found->second.calls;
      if (made != first.calls) {
        return fmt::format("rank {} makes {} calls on a group of {} ranks on which rank {} makes {}",
                           first_rank.value, first.calls, members.size(), rank.value, made);
      }
      for (const auto& [signature, calls] : first.by_signature) {
        const auto same = found->second.by_signature.find(signature);
        const std::uint32_t made_alike = same == found->second.by_signature.end() ? 0 : same->second;
        if (made_alike != calls) {
          return fmt::format(
              "rank {} makes {} calls of {} with {} bytes on a group of {} ranks on which rank {} makes {}",
              first_rank.value, calls, name_of(signature.kind), signature.bytes, members.size(), rank.value,
              made_alike);
        }
      }
    }
  }
  return std::nullopt;
}

/// The k-th message of a communicator and size belongs to the k-th receive of these, in the order in which
/// receives are waited for. Where the two sides tell other ones, they do not count.
void SchedulePlanner::match_messages() {
  const auto in_order = [](const Message& message) { return message.waited_at; };
  const auto alike = [](const Message& message) {
    return std::tuple(message.communicator, message.bytes, message.waited_at);
  };
  for (std::uint32_t id = 0; id < messages_.size(); ++id) {
    const Messages& messages = messages_[id];
    std::vector<std::uint32_t> sends = sorted_by(messages.sends, alike);
    std::vector<std::uint32_t> receives = sorted_by(messages.receives, alike);
    const auto agrees = [&](std::uint32_t send, std::uint32_t receive) {
      return messages.sends[send].bytes == messages.receives[receive].bytes;
    };
    if (!std::equal(sends.begin(), sends.end(), receives.begin(), agrees)) {
      sends = sorted_by(messages.sends, in_order);
      receives = sorted_by(messages.receives, in_order);
      for (const Message& message : messages.sends) {
        schedule_.pairs_[id].sent_bytes.push_back(message.bytes);
      }
    }
    if (sends != receives) {
      std::vector<std::uint32_t>& matched = schedule_.pairs_[id].matched;
      matched.resize(receives.size());
      for (std::size_t nth = 0; nth < receives.size(); ++nth) {
        matched[receives[nth]] = sends[nth];
      }
    }
  }
  messages_.clear();
}

/// Tag 0 is of messages in order; then come those of numbered messages, which pairs share, then collectives.
void SchedulePlanner::add_series() {
  std::uint32_t tag = 1;
  for (const MessagePair& pair : schedule_.pairs_) {
    tag = std::max(tag, static_cast<std::uint32_t>(pair.matched.size()) + 1);
  }
  for (const auto& [key, group] : groups_) {
    const Member& first = group.callers.begin()->second;
    const auto all_have = [&group](std::uint64_t Member::* hash) {
      return std::all_of(group.callers.begin(), group.callers.end(), [&](const auto& caller) {
        return caller.second.*hash == group.callers.begin()->second.*hash;
      });
    };
    const bool in_one_order = all_have(&Member::order);
    std::map<CallSignature, std::uint32_t> calls = first.by_signature;
    if (in_one_order) {
      calls = {{CallSignature{}, first.calls}};
    }
    for (const auto& [signature, count] : calls) {
      schedule_.series_ids_[key][signature] = static_cast<std::uint32_t>(schedule_.series_.size());
      const bool has_tag_per_call = group.overlaps || schedule_.has_order_ || !in_one_order;
      schedule_.series_.push_back({.members = key.second,
                                   .calls = count,
                                   .first_tag = tag,
                                   .has_tag_per_call = has_tag_per_call,
                                   .is_uneven = !all_have(&Member::exchanges),
                                   .first_instance = schedule_.instances_});
      schedule_.instances_ += count;
      tag += has_tag_per_call ? count : 1;
    }
  }
  groups_.clear();
}

}  // namespace commlens::formats
