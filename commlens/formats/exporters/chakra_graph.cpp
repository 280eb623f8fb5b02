#include "commlens/formats/exporters/chakra_graph.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "commlens/formats/chakra_names.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_chakra_sink_block = std::size_t{1} << 20;
/// Groups of all ranks of larger jobs are written as such and not rank by rank.
constexpr std::size_t k_longest_listed_group = 4096;

constexpr std::string_view k_schema = "0.0.4";

std::int64_t bytes_of(Elements count, DType type) { return (count * type).value; }

ChakraNodeType node_type_of_kind(CommKind kind) {
  switch (kind) {
    case CommKind::send:
      return ChakraNodeType::send;
    case CommKind::recv:
      return ChakraNodeType::receive;
    case CommKind::other:  // a simulator would take it for the first collective of its list
      return ChakraNodeType::metadata;
    default:
      return ChakraNodeType::collective;
  }
}

void add_text(std::string_view name, const std::string& text, ChakraNode& node) {
  if (!text.empty()) {
    node.attributes.add(name, valid_utf8(text));  // Chakra's own tools refuse anything else
  }
}

/// One group of the list, in the words of PyTorch's profiler; no ranks are all of them.
std::string group_text(const std::string& number, const std::vector<Rank>& members, std::string_view axis) {
  const bool is_everyone = members.size() > k_longest_listed_group && members.front().value == 0 &&
                           members.back().value + 1 == static_cast<std::int64_t>(members.size());
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

void ChakraChain::settle(std::chrono::nanoseconds now) {
  const auto still_running =
      std::partition(running.begin(), running.end(), [now](const Finish& node) { return node.first <= now; });
  for (auto finished = running.begin(); finished != still_running; ++finished) {
    latest_finished = latest_finished ? std::max(*latest_finished, *finished) : *finished;
  }
  running.erase(running.begin(), still_running);
}

ChakraGraph::ChakraGraph(const Trace& trace, const RankStream& stream, Rank rank, const TextSink& sink)
    : trace_(trace), stream_(stream), rank_(rank), sink_(sink) {
  if (!stream.times.empty()) {
    origin_ = std::min_element(stream.times.begin(), stream.times.end(), [](const Times& a, const Times& b) {
                return a.started < b.started;
              })->started;
  }
  if (!stream.compute.empty()) {
    const std::chrono::nanoseconds first = stream.compute.front().started;
    origin_ = stream.times.empty() ? first : std::min(origin_, first);
  }
}

void ChakraGraph::write() {
  write_head();
  write_groups();
  auto stretch = stream_.compute.begin();
  for (std::size_t row = 0; row < stream_.events.size(); ++row) {
    while (!stream_.times.empty() && stretch != stream_.compute.end() &&
           stretch->started < stream_.times[row].started) {
      write_compute(*stretch++);
    }
    write_call(row);
  }
  for (; stretch != stream_.compute.end(); ++stretch) {
    write_compute(*stretch);
  }
  sink_(block_);
}

void ChakraGraph::write_head() {
  ChakraMetadata metadata;
  metadata.version = k_schema;
  metadata.attributes.add(k_own_rank, rank_.value);
  append_chakra(metadata, block_);
}

void ChakraGraph::write_groups() {
  std::set<GroupId> groups;
  for (const CommEvent& event : stream_.events) {
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
  ChakraNode node;
  node.name = k_chakra_groups_node;
  node.type = ChakraNodeType::metadata;
  node.input_values = fmt::format("['[{}]']", list);
  node.input_types = "['String']";
  node.attributes.add(k_chakra_is_cpu_op, true);
  node.id = next_id_++;
  put(node);
}

/// A number, since simulators read one. The same group has the same one in the files of all its ranks.
std::string ChakraGraph::group_number(GroupId group, const std::vector<Rank>& members) const {
  const auto row = static_cast<std::int64_t>(group);
  if (!trace_.groups.pattern(group)) {
    return std::to_string(row);
  }
  const std::optional<Mesh> mesh = trace_.groups.mesh();
  const std::int64_t ranks = mesh ? mesh->ranks() : trace_.ranks();
  return std::to_string(static_cast<std::int64_t>(trace_.groups.count()) + row * ranks +
                        members.front().value);
}

void ChakraGraph::write_compute(const ComputeInterval& stretch) {
  ChakraNode node;
  node.id = next_id_++;
  node.name = "compute";
  node.type = ChakraNodeType::compute;
  node.attributes.add(k_chakra_is_cpu_op, false);
  if (stretch.iteration != k_unknown_iteration) {
    node.attributes.add(k_own_iteration, std::int64_t{stretch.iteration});
  }
  set_times(stretch.started, stretch.finished, node);
  for (ChakraChain* const chain : {&computing_, &calls_}) {
    chain->settle(stretch.started);
    if (chain->latest_finished) {
      node.data_dependencies.push_back(chain->latest_finished->second);
    }
  }
  computing_.running.emplace_back(stretch.finished, node.id);
  put(node);
}

void ChakraGraph::write_call(std::size_t row) {
  const CommEvent& event = stream_.events[row];
  const CommOp& op = trace_.op(event.op);
  ChakraNode node;
  node.id = next_id_++;
  const std::string& own_name = trace_.names.text(op.name);
  node.name =
      op.kind == CommKind::other && !own_name.empty() ? valid_utf8(own_name) : std::string(name_of(op.kind));
  node.type = node_type_of_kind(op.kind);
  set_call(op, event, node);
  if (calls_.last) {
    node.data_dependencies.push_back(*calls_.last);
  }
  if (!stream_.times.empty()) {
    const Times& times = stream_.times[row];
    set_times(times.started, times.finished, node);
    computing_.settle(times.started);
    if (computing_.latest_finished) {
      node.data_dependencies.push_back(computing_.latest_finished->second);
    }
    calls_.running.emplace_back(times.finished, node.id);
  }
  calls_.last = node.id;
  put(node);
}

void ChakraGraph::set_call(const CommOp& op, const CommEvent& event, ChakraNode& node) const {
  ChakraAttributes& attributes = node.attributes;
  const std::int64_t input = bytes_of(op.input, op.dtype);
  const std::int64_t output = bytes_of(op.output, op.dtype);
  attributes.add(k_chakra_is_cpu_op, false);
  if (const std::optional<std::int64_t> comm_type = chakra_comm_type(op.kind)) {
    attributes.add(k_chakra_comm_type, *comm_type);
  }
  attributes.add(k_chakra_comm_size, op.kind == CommKind::recv ? output : input);
  set_group(op, node);
  attributes.add(k_own_op, std::string(name_of(op.kind)));
  attributes.add(k_own_dtype, std::string(name_of(op.dtype)));
  attributes.add(k_own_input_bytes, input);
  attributes.add(k_own_output_bytes, output);
  if (op.phase != Phase::other) {
    attributes.add(k_own_phase, std::string(name_of(op.phase)));
  }
  if (event.iteration != k_unknown_iteration) {
    attributes.add(k_own_iteration, std::int64_t{event.iteration});
  }
  if (event.micro_batch != k_no_micro_batch) {
    attributes.add(k_own_micro_batch, std::int64_t{event.micro_batch});
  }
  if (op.rounding.value != 0) {
    attributes.add(k_own_rounding, op.rounding.value);
  }
  if (op.data_dependent) {
    attributes.add(k_own_data_dependent, true);
  }
  add_text(k_own_tag, trace_.tags.text(op.tag), node);
  add_text(k_own_rule, trace_.rule(op.rule).name, node);
  add_text(k_own_name, trace_.names.text(op.name), node);
}

void ChakraGraph::set_group(const CommOp& op, ChakraNode& node) const {
  const std::vector<Rank> members = trace_.groups.members(op.group, rank_);
  if (is_point_to_point(op.kind)) {
    if (members.size() == 2) {
      node.attributes.add(k_chakra_source, static_cast<std::int32_t>(members[0].value));
      node.attributes.add(k_chakra_destination, static_cast<std::int32_t>(members[1].value));
      node.attributes.add(k_chakra_tag, std::int32_t{0});
    }
    return;
  }
  if (members.empty()) {
    if (const std::int64_t size = trace_.groups.size(op.group); size > 0) {
      node.attributes.add(k_own_group_size, size);
      add_text(k_own_group_name, trace_.groups.name(op.group), node);
    }
    return;
  }
  node.attributes.add(k_chakra_group, group_number(op.group, members));
  if (op.root && static_cast<std::size_t>(op.root->value) < members.size()) {
    node.attributes.add(k_own_root, members[static_cast<std::size_t>(op.root->value)].value);
  }
}

void ChakraGraph::set_times(std::chrono::nanoseconds started, std::chrono::nanoseconds finished,
                            ChakraNode& node) const {
  constexpr std::int64_t ns_per_us = 1000;
  node.start_us = static_cast<std::uint64_t>((started - origin_).count() / ns_per_us);
  node.duration_us = static_cast<std::uint64_t>(((finished - started).count() + ns_per_us - 1) / ns_per_us);
  node.attributes.add(k_own_start, started.count());
  node.attributes.add(k_own_duration, (finished - started).count());
}

void ChakraGraph::put(const ChakraNode& node) {
  append_chakra(node, block_);
  if (block_.size() >= k_chakra_sink_block) {
    sink_(block_);
    block_.clear();
  }
}

Result<void> write_chakra(const Trace& trace, const CallSelection& selection,
                          const std::filesystem::path& folder) {
  for (const RankStream& stream : trace.streams) {
    for (Rank rank = stream.ranks.first; rank <= stream.ranks.last; ++rank.value) {
      if (selection.rank && *selection.rank != rank) {
        continue;
      }
      write_stream((folder / fmt::format("chakra.{}.et", rank.value)).string(),
                   [&](const TextSink& sink) { ChakraGraph(trace, stream, rank, sink).write(); });
    }
  }
  return {};
}

}  // namespace commlens
