#include "commlens/formats/chakra/graph.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/formats/chakra/names.hpp"
#include "commlens/formats/io/op_details.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::chakra {
namespace {

constexpr std::size_t k_chakra_sink_block = std::size_t{1} << 20;
/// Groups of all ranks of larger jobs are written as such and not rank by rank.
constexpr std::size_t k_longest_listed_group = 4096;

constexpr std::string_view k_schema = "0.0.4";

std::int64_t bytes_of(Elements count, DType type) { return (count * type).value; }

/// What moves nothing between ranks is a METADATA_NODE: a simulator would take a call of kind `other` for the
/// first collective of its list, and finds no way from a rank to itself.
NodeType node_type_of(const CommOp& op, const std::vector<Rank>& members) {
  const bool moves = op.kind != CommKind::other &&
                     (members.empty() ||
                      (is_point_to_point(op.kind) ? members.front() != members.back() : members.size() > 1));
  if (!moves) {
    return METADATA_NODE;
  }
  return op.kind == CommKind::send   ? COMM_SEND_NODE
         : op.kind == CommKind::recv ? COMM_RECV_NODE
                                     : COMM_COLL_NODE;
}

/// ASTRA-sim refuses barriers and reductions to one rank, and has no use for collectives of no bytes. A
/// barrier, and what else moves nothing and makes all members wait, is an all_reduce of one byte; a reduce
/// sends what a reduce_scatter sends.
CommKind simulated_kind(const CommOp& op, std::int64_t bytes) {
  if (op.kind == CommKind::barrier || (bytes == 0 && op.kind != CommKind::broadcast)) {
    return CommKind::all_reduce;
  }
  return op.kind == CommKind::reduce ? CommKind::reduce_scatter : op.kind;
}

void add_text(std::string_view name, const std::string& text, Node& node) {
  if (!text.empty()) {
    add_attribute(node, name).set_text(valid_utf8(text));  // Chakra's own tools refuse anything else
  }
}

/// Chakra's tools look for every list of tensors.
void complete(Tensors& tensors) {
  tensors.set_values(tensors.values().empty() ? "[]" : tensors.values());
  tensors.set_shapes("[]");
  tensors.set_types(tensors.types().empty() ? "[]" : tensors.types());
}

/// One group of the list, in the words of PyTorch's profiler; no ranks are all of them.
std::string group_text(const std::string& number, const std::vector<Rank>& members, std::string_view axis) {
  const bool is_everyone = members.size() > k_longest_listed_group && members.front().value == 0 &&
                           members.back().value + 1 == static_cast<std::int64_t>(members.size()) &&
                           std::is_sorted(members.begin(), members.end());
  std::string ranks;
  for (const Rank member : members) {
    if (!is_everyone) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", member.value);
    }
  }
  return fmt::format(R"({{"pg_name": "{}", "pg_desc": "{}", "ranks": [{}], "group_size": {}}})", number, axis,
                     ranks, members.size());
}

}  // namespace

void ChakraFrontier::settle(std::uint32_t position, std::chrono::nanoseconds now) {
  const auto still_running = std::partition(running_.begin(), running_.end(), [&](const Running& node) {
    return node.waited_at <= position && node.finished <= now;
  });
  std::sort(running_.begin(), still_running, [](const Running& a, const Running& b) { return a.id < b.id; });
  for (auto node = running_.begin(); node != still_running; ++node) {
    std::erase_if(finished_, [&](std::uint64_t id) {
      return std::find(node->after.begin(), node->after.end(), id) != node->after.end();
    });
    finished_.push_back(node->id);
  }
  running_.erase(running_.begin(), still_running);
}

void ChakraGraph::write(const RankStream& stream, Rank rank) {
  rank_ = rank;
  tells_rows_ = schedule_.has_overlaps() || !schedule_.order(stream).is_that_of_rows();
  if (!stream.times.empty()) {
    origin_ = std::min_element(stream.times.begin(), stream.times.end(), [](const Times& a, const Times& b) {
                return a.started < b.started;
              })->started;
  }
  if (!stream.compute.empty()) {
    const std::chrono::nanoseconds first = stream.compute.front().started;
    origin_ = stream.times.empty() ? first : std::min(origin_, first);
  }
  write_head();
  write_groups(stream);
  ScheduledRank calls(schedule_, stream, rank);
  auto interval = stream.compute.begin();
  for (ScheduledCall call; calls.next(call);) {
    while (!stream.times.empty() && interval != stream.compute.end() &&
           interval->started < stream.times[call.row].started) {
      write_compute(*interval++, call.position);
    }
    take_call(stream, call);
  }
  for (; interval != stream.compute.end(); ++interval) {
    write_compute(*interval, CallOrder::k_never);
  }
  sink_(block_);
}

void ChakraGraph::write_head() {
  GlobalMetadata metadata;
  metadata.set_version(std::string(k_schema));
  add_attribute(metadata, k_own_rank).set_integer(rank_.value);
  append_message(metadata, block_);
}

void ChakraGraph::write_groups(const RankStream& stream) {
  std::set<GroupId> groups;
  for (const CommEvent& event : stream.events) {
    const CommOp& op = trace_.op(event.op);
    if (!is_point_to_point(op.kind) && trace_.groups.knows_members(op.group)) {
      groups.insert(op.group);
    }
  }
  std::string list;
  for (const GroupId group : groups) {
    const std::vector<Rank> members = trace_.groups.members(group, rank_);
    if (!members.empty()) {
      list += (list.empty() ? "" : ", ") +
              group_text(group_number(group, members), members, name_of(trace_.groups.axis(group)));
    }
  }
  if (list.empty()) {
    return;
  }
  Node node;
  node.set_name(std::string(k_chakra_groups_node));
  node.set_type(METADATA_NODE);
  node.mutable_inputs()->set_values(fmt::format("['[{}]']", list));
  node.mutable_inputs()->set_types("['String']");
  add_attribute(node, k_chakra_is_cpu_op).set_flag(true);
  node.set_id(next_id_++);
  put(node);
}

/// A number, since simulators read one, and not 0, which they take for the group of all ranks. The same group
/// has the same one in the files of all its ranks.
std::string ChakraGraph::group_number(GroupId group, const std::vector<Rank>& members) const {
  const auto row = static_cast<std::int64_t>(group);
  if (trace_.groups.pattern(group) == nullptr) {
    return std::to_string(row + 1);
  }
  const std::optional<Mesh>& mesh = trace_.groups.mesh();
  const std::int64_t ranks = mesh ? mesh->ranks() : trace_.ranks();
  return std::to_string(static_cast<std::int64_t>(trace_.groups.count()) + row * ranks +
                        members.front().value + 1);
}

void ChakraGraph::write_compute(const ComputeInterval& interval, std::uint32_t position) {
  Node node;
  node.set_id(next_id_++);
  node.set_name("compute");
  node.set_type(COMP_NODE);
  add_attribute(node, k_chakra_is_cpu_op).set_flag(false);
  if (interval.iteration != k_unknown_iteration) {
    add_attribute(node, k_own_iteration).set_integer(interval.iteration);
  }
  set_times(interval.started, interval.finished, node);
  frontier_.settle(position, interval.started);
  node.mutable_data_dependencies()->Add(frontier_.nodes().begin(), frontier_.nodes().end());
  frontier_.start({.id = node.id(), .finished = interval.finished, .after = frontier_.nodes()});
  put(node);
}

Node ChakraGraph::node_of(const RankStream& stream, const ScheduledCall& call) const {
  const CommEvent& event = stream.events[call.row];
  const CommOp& op = trace_.op(event.op);
  Node node;
  const std::string& own_name = trace_.names.text(op.name);
  node.set_name(op.kind == CommKind::other && !own_name.empty() ? valid_utf8(own_name)
                                                                : std::string(name_of(op.kind)));
  set_call(op, call, node);
  set_own(op, event, node);
  return node;
}

void ChakraGraph::write_steps(const RankStream& stream, Rank rank, const StreamOrder& order,
                              const std::vector<ComputeWork>& works) {
  rank_ = rank;
  write_head();
  write_groups(stream);
  ScheduledRank calls(schedule_, stream, rank);
  const std::uint64_t first = next_id_;
  for (const OrderedStep& step : order.steps) {
    Node node;
    if (step.kind == OrderedStep::Kind::work) {
      const ComputeWork& work = works[step.row];
      node.set_name(work.name);
      node.set_type(COMP_NODE);
      add_attribute(node, k_chakra_is_cpu_op).set_flag(false);
      add_attribute(node, k_chakra_num_ops).set_integer(static_cast<std::int64_t>(work.flops));
      add_attribute(node, k_chakra_tensor_size).set_natural(static_cast<std::uint64_t>(work.bytes));
    } else {
      ScheduledCall call;
      COMMLENS_CHECK(calls.next(call) && call.row == step.row,
                     "the order of a prediction has all of its calls");
      node = node_of(stream, call);
    }
    for (std::uint32_t wait = step.first_wait; wait < step.first_wait + step.waits; ++wait) {
      node.add_data_dependencies(first + order.waits[wait]);
    }
    node.set_id(next_id_++);
    put(node);
  }
  sink_(block_);
}

void ChakraGraph::take_call(const RankStream& stream, const ScheduledCall& call) {
  Node node = node_of(stream, call);
  if (tells_rows_) {
    add_attribute(node, k_own_row).set_integer(call.row);
  }
  const Times times = stream.times.empty() ? Times{} : stream.times[call.row];
  if (!stream.times.empty()) {
    set_times(times.started, times.finished, node);
  }
  frontier_.settle(call.position, times.started);
  node.mutable_data_dependencies()->Add(frontier_.nodes().begin(), frontier_.nodes().end());
  write_or_hold(stream, {call, std::move(node)});
}

/// A collective comes after the calls that it lets pass.
void ChakraGraph::write_or_hold(const RankStream& stream, Held call) {
  static const std::vector<std::uint32_t> k_nobody;
  const auto* const listed = schedule_.let_pass(rank_, call.call.position);
  const std::vector<std::uint32_t>& passing = listed == nullptr ? k_nobody : *listed;
  const auto ahead = std::find_if(passing.begin(), passing.end(),
                                  [&](std::uint32_t position) { return !ids_.contains(position); });
  if (ahead != passing.end()) {
    held_.emplace(*ahead, std::move(call));
    return;
  }
  for (const std::uint32_t position : passing) {
    call.node.add_data_dependencies(ids_.at(position));
  }
  write_call(stream, call.call, std::move(call.node));
}

void ChakraGraph::write_call(const RankStream& stream, const ScheduledCall& call, Node node) {
  node.set_id(next_id_++);
  if (schedule_.has_overlaps()) {
    ids_[call.position] = node.id();
  }
  put(node);
  if (node.type() != COMM_SEND_NODE) {
    const bool has_times = !stream.times.empty();
    frontier_.start({.id = node.id(),
                     .waited_at = call.waited_at,
                     .finished = has_times ? stream.times[call.row].finished : std::chrono::nanoseconds{},
                     .after = {node.data_dependencies().begin(), node.data_dependencies().end()}});
  }
  for (auto held = held_.find(call.position); held != held_.end(); held = held_.find(call.position)) {
    Held next = std::move(held->second);
    held_.erase(held);
    write_or_hold(stream, std::move(next));
  }
}

/// What the collective is simulated with: what each rank puts in, the same for all of them.
std::int64_t ChakraGraph::comm_size(const CommOp& op, const ScheduledCall& call) const {
  const std::int64_t input = bytes_of(op.input, op.dtype);
  const std::int64_t output = bytes_of(op.output, op.dtype);
  if (op.kind == CommKind::recv) {
    return call.role.kind == CallRole::Kind::receive
               ? schedule_.pairs()[call.role.index].bytes(call.number, output)
               : output;
  }
  const std::int64_t ranks = trace_.groups.size(op.group);
  if (op.kind == CommKind::all_gather && ranks > 0) {
    return (output + ranks - 1) / ranks;
  }
  if (op.kind == CommKind::all_to_all && call.role.kind == CallRole::Kind::collective) {
    const std::uint32_t instance = schedule_.series()[call.role.index].first_instance + call.number;
    const auto total = uneven_.find(instance);
    return total == uneven_.end() ? input : (total->second + ranks - 1) / ranks;
  }
  return input;
}

void ChakraGraph::set_call(const CommOp& op, const ScheduledCall& call, Node& node) const {
  const std::int64_t bytes = comm_size(op, call);
  node.set_type(node_type_of(op, trace_.groups.members(op.group, rank_)));
  add_attribute(node, k_chakra_is_cpu_op).set_flag(false);
  if (const std::optional<std::int64_t> comm_type = chakra_comm_type(simulated_kind(op, bytes))) {
    if (!is_point_to_point(op.kind) && op.kind != CommKind::other) {
      add_attribute(node, k_chakra_comm_type).set_integer(*comm_type);
    }
  }
  add_attribute(node, k_chakra_comm_size).set_integer(std::max<std::int64_t>(bytes, 1));
  set_group(op, call, node);
}

void ChakraGraph::set_own(const CommOp& op, const CommEvent& event, Node& node) const {
  add_attribute(node, k_own_op).set_text(std::string(name_of(op.kind)));
  add_attribute(node, k_own_dtype).set_text(std::string(name_of(op.dtype)));
  add_attribute(node, k_own_input_bytes).set_integer(bytes_of(op.input, op.dtype));
  add_attribute(node, k_own_output_bytes).set_integer(bytes_of(op.output, op.dtype));
  if (op.phase != Phase::other) {
    add_attribute(node, k_own_phase).set_text(std::string(name_of(op.phase)));
  }
  if (event.iteration != k_unknown_iteration) {
    add_attribute(node, k_own_iteration).set_integer(event.iteration);
  }
  if (event.micro_batch != k_no_micro_batch) {
    add_attribute(node, k_own_micro_batch).set_integer(event.micro_batch);
  }
  if (op.rounding.value != 0) {
    add_attribute(node, k_own_rounding).set_integer(op.rounding.value);
  }
  for (const OpDetail& detail : op_details(trace_, op)) {
    add_text(fmt::format("{}{}", k_own_prefix, detail.key), detail.text, node);
  }
  if (const CommunicatorId communicator = trace_.groups.communicator(op.group);
      communicator != k_no_communicator) {
    add_attribute(node, k_own_communicator).set_text(text_of(communicator));
  }
  add_text(k_own_tag, trace_.tags.text(op.tag), node);
  add_text(k_own_rule, trace_.rule(op.rule).name, node);
  add_text(k_own_name, trace_.names.text(op.name), node);
}

void ChakraGraph::set_group(const CommOp& op, const ScheduledCall& call, Node& node) const {
  const std::vector<Rank> members = trace_.groups.members(op.group, rank_);
  if (is_point_to_point(op.kind)) {
    if (members.size() == 2) {
      add_attribute(node, k_chakra_source).set_integer_32(static_cast<std::int32_t>(members[0].value));
      add_attribute(node, k_chakra_destination).set_integer_32(static_cast<std::int32_t>(members[1].value));
      add_attribute(node, k_chakra_tag).set_integer_32(static_cast<std::int32_t>(call.tag));
    }
    return;
  }
  if (members.empty()) {
    if (const std::int64_t size = trace_.groups.size(op.group); size > 0) {
      add_attribute(node, k_own_group_size).set_integer(size);
      add_text(k_own_group_name, trace_.groups.name(op.group), node);
    }
    return;
  }
  add_attribute(node, k_chakra_group).set_text(group_number(op.group, members));
  if (op.root && static_cast<std::size_t>(op.root->value) < members.size()) {
    add_attribute(node, k_own_root).set_integer(members[static_cast<std::size_t>(op.root->value)].value);
  }
}

void ChakraGraph::set_times(std::chrono::nanoseconds started, std::chrono::nanoseconds finished,
                            Node& node) const {
  constexpr std::int64_t ns_per_us = 1000;
  node.set_start_us(static_cast<std::uint64_t>((started - origin_).count() / ns_per_us));
  node.set_duration_us(
      static_cast<std::uint64_t>(((finished - started).count() + ns_per_us - 1) / ns_per_us));
  add_attribute(node, k_own_start).set_integer(started.count());
  add_attribute(node, k_own_duration).set_integer((finished - started).count());
}

void ChakraGraph::put(Node& node) {
  complete(*node.mutable_inputs());
  complete(*node.mutable_outputs());
  append_message(node, block_);
  if (block_.size() >= k_chakra_sink_block) {
    sink_(block_);
    block_.clear();
  }
}

}  // namespace commlens::formats::chakra
