#include "commlens/formats/chakra/import.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/chakra/messages.hpp"
#include "commlens/formats/chakra/names.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/call_fields.hpp"
#include "commlens/formats/io/file_rank.hpp"
#include "commlens/formats/io/op_details.hpp"
#include "commlens/formats/io/torch_groups.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/io/torch_tensors.hpp"

namespace commlens::formats::chakra {
namespace {

bool runs_on_cpu(const Node& node) { return flag(node.attributes(), k_chakra_is_cpu_op).value_or(false); }

bool is_communication(const Node& node) {
  return node.type() == COMM_SEND_NODE || node.type() == COMM_RECV_NODE || node.type() == COMM_COLL_NODE ||
         !text(node.attributes(), k_own_op).empty();
}

/// Whether a node only describes what a CPU did to start a call, which is another node.
bool is_cpu_side(const Node& node) {
  return runs_on_cpu(node) && !integer(node.attributes(), k_chakra_comm_type) &&
         !integer(node.attributes(), k_chakra_comm_size);
}

/// "ncclKernel_AllReduce_RING_LL_Sum_float(…)" and "c10d::allreduce_(0)" say what they do.
std::optional<CommKind> kind_by_name(std::string_view name) {
  const CommKind kind = is_communication_kernel(name) ? kind_of_kernel(name) : torch_collective(name).kind;
  return kind == CommKind::other ? std::nullopt : std::optional(kind);
}

std::optional<CommKind> kind_of(const Node& node) {
  if (const std::string_view own = text(node.attributes(), k_own_op); !own.empty()) {
    return comm_kind_from(own);
  }
  if (node.type() != COMM_COLL_NODE) {
    return node.type() == COMM_SEND_NODE ? CommKind::send : CommKind::recv;
  }
  const std::optional<std::int64_t> comm_type = integer(node.attributes(), k_chakra_comm_type);
  return comm_type ? kind_of_comm_type(*comm_type) : kind_by_name(node.name());
}

/// The text of the one string in a list in Python's notation, ['[{"pg_name": "0"}]'].
std::string string_in_list(std::string_view list) {
  const std::size_t begin = list.find_first_of("'\"");
  const std::size_t end = begin == std::string_view::npos ? begin : list.rfind(list[begin]);
  std::string text;
  if (end == std::string_view::npos) {
    return text;
  }
  for (std::size_t at = begin + 1; at < end; ++at) {
    const bool is_escape = list[at] == '\\' && at + 1 < end;
    at += is_escape ? 1 : 0;
    text += list[at];
  }
  return text;
}

/// What the second pass over a file needs of all of it.
struct ChakraSurvey {
  std::optional<std::int64_t> rank;
  TorchGroups groups;
  std::unordered_map<std::uint64_t, std::int64_t> outputs;  // bytes by node, of what a CPU launched
  bool has_starts = false;
  bool is_own = false;  // our own export
  std::int64_t nodes = 0;
};

Result<ChakraSurvey> survey_chakra(const std::filesystem::path& path) {
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  Reader reader(std::move(*source));
  const Result<GlobalMetadata> metadata = reader.metadata();
  if (!metadata) {
    return tl::unexpected(metadata.error());
  }
  ChakraSurvey survey;
  survey.rank = integer(metadata->attributes(), k_own_rank);
  survey.is_own = survey.rank.has_value();
  survey.rank = survey.rank ? survey.rank : rank_in_name(path);
  Node node;
  Result<bool> got = reader.next(node);
  for (; got && *got; got = reader.next(node)) {
    ++survey.nodes;
    survey.has_starts = survey.has_starts || node.start_us() > 0 || integer(node.attributes(), k_own_start);
    if (node.type() == METADATA_NODE && node.name() == k_chakra_groups_node) {
      survey.groups.read_list(string_in_list(node.inputs().values()));
    } else if (is_communication(node) && is_cpu_side(node)) {
      survey.outputs[node.id()] = torch_tensor_bytes(node.outputs().values()).value_or(0);
    } else if (node.type() == COMM_SEND_NODE && !survey.rank) {
      survey.rank = integer(node.attributes(), k_chakra_source);
    }
  }
  if (!got) {
    return tl::unexpected(got.error());
  }
  return survey;
}

/// The second pass: nodes become calls.
class ChakraImport {
 public:
  ChakraImport(const std::filesystem::path& path, ChakraSurvey survey)
      : survey_(std::move(survey)), builder_("Chakra execution trace", path.string()) {
    if (!survey_.rank) {
      builder_.provenance().assume(k_rank_unsaid);
    }
  }

  void take(const Node& node) {
    if (is_communication(node)) {
      take_call(node);
    } else if (node.type() == COMP_NODE) {
      take_compute(node);
    } else if (node.type() == METADATA_NODE) {
      is_groups_read_ = is_groups_read_ || node.name() == k_chakra_groups_node;
      skip(node.name() == k_chakra_groups_node ? "" : "metadata node");
    } else {
      const bool is_memory = node.type() == MEM_LOAD_NODE || node.type() == MEM_STORE_NODE;
      skip(is_memory ? "memory node" : "node of another kind");
    }
  }

  Trace finish(bool is_cut_off) {
    if (is_cut_off) {
      skip("node that the end of the file cuts off");
    }
    if (is_groups_read_ && survey_.groups.empty()) {
      skip("list of process groups that cannot be read");
    }
    Trace trace = builder_.finish();
    for (RankStream& stream : trace.streams) {
      if (!survey_.is_own) {
        sort_by_start(stream);
      } else if (rows_.size() == stream.events.size()) {
        reorder(stream, [&](std::size_t a, std::size_t b) { return rows_[a] < rows_[b]; });
      }
    }
    return trace;
  }

 private:
  void skip(const std::string& reason) {
    if (!reason.empty()) {
      builder_.provenance().skip(reason);
    }
  }

  void take_compute(const Node& node) {
    if (runs_on_cpu(node)) {
      skip("node of the CPU");
    } else if (!survey_.has_starts) {
      skip("computing node without a start time");
    } else {
      CallRecord record;
      record.rank = survey_.rank.value_or(0);
      record.is_compute = true;
      set_iteration(node, record);
      set_times(node, record);
      builder_.add_or_skip(record);
    }
  }

  void take_call(const Node& node) {
    if (is_cpu_side(node)) {
      skip("node of the CPU, which launches a call");
      return;
    }
    const std::optional<CommKind> kind = kind_of(node);
    if (!kind) {
      skip("call of an unknown type");
      return;
    }
    CallRecord record;
    record.rank = survey_.rank.value_or(0);
    record.op = *kind;
    record.phase = phase_from(text(node.attributes(), k_own_phase));
    record.micro_batch = integer(node.attributes(), k_own_micro_batch);
    record.communicator = text(node.attributes(), k_own_communicator);
    record.tag = text(node.attributes(), k_own_tag);
    record.rule = text(node.attributes(), k_own_rule);
    record.name = text(node.attributes(), k_own_name);
    record.rounding_bytes = integer(node.attributes(), k_own_rounding);
    set_details(node, record);
    if (record.name.empty() && *kind == CommKind::other && !survey_.is_own) {
      record.name = node.name();
    }
    set_iteration(node, record);
    set_times(node, record);
    set_ranks(node, *kind, record);
    if (!set_sizes(node, *kind, record)) {
      skip("call whose size cannot be determined");
      return;
    }
    if (builder_.add_or_skip(record) && integer(node.attributes(), k_own_row)) {
      rows_.push_back(*integer(node.attributes(), k_own_row));
    }
  }

  /// The words of our own export.
  static void set_details(const Node& node, CallRecord& record) {
    record.data_dependent = flag(node.attributes(), k_own_data_dependent);
    for (const std::string_view key : k_op_detail_keys) {
      const std::string value(text(node.attributes(), fmt::format("{}{}", k_own_prefix, key)));
      if (value.empty()) {
        continue;
      }
      const auto field = std::find_if(call_fields().begin(), call_fields().end(),
                                      [&](const CallField& each) { return each.key == key; });
      if (!field->set_text(record, value) && (value == "true" || value == "false")) {
        record.blocking = value == "true";
      }
    }
  }

  static void set_iteration(const Node& node, CallRecord& record) {
    record.iteration = integer(node.attributes(), k_own_iteration);
    record.iteration_unknown = !record.iteration;
  }

  void set_times(const Node& node, CallRecord& record) {
    constexpr std::uint64_t latest_us = INT64_MAX / 2000;
    record.start_ns = integer(node.attributes(), k_own_start);
    record.duration_ns = integer(node.attributes(), k_own_duration);
    if (record.start_ns || record.duration_ns || !survey_.has_starts) {
      if (!survey_.has_starts && node.duration_us() > 0) {
        skip("call with a duration and no start time");
      }
      return;
    }
    if (node.start_us() <= latest_us && node.duration_us() <= latest_us) {
      record.start_ns = static_cast<std::int64_t>(node.start_us()) * 1000;
      record.duration_ns = static_cast<std::int64_t>(node.duration_us()) * 1000;
    }
  }

  void set_ranks(const Node& node, CommKind kind, CallRecord& record) const {
    record.group.is_given = true;
    if (is_point_to_point(kind)) {
      const std::optional<std::int64_t> source = integer(node.attributes(), k_chakra_source);
      const std::optional<std::int64_t> destination = integer(node.attributes(), k_chakra_destination);
      if (source && destination) {
        record.group.ranks = {Rank{*source}, Rank{*destination}};
      }
      return;
    }
    const std::string name(text(node.attributes(), k_chakra_group));
    TorchGroup group = survey_.groups.find(name);
    if (const std::optional<std::int64_t> size = integer(node.attributes(), k_own_group_size)) {
      group.size = *size;
      set_group(group, std::string(text(node.attributes(), k_own_group_name)), record);
    } else {
      set_group(group, name, record);
    }
    if (survey_.is_own) {
      record.group.ranks = group.ranks;  // in the order of the communicator
    }
    record.root = integer(node.attributes(), k_own_root);
    record.root_unknown = true;
  }

  /// False when the file does not report how much the call moves.
  bool set_sizes(const Node& node, CommKind kind, CallRecord& record) const {
    record.dtype = dtype_word(text(node.attributes(), k_own_dtype));
    record.input_bytes = integer(node.attributes(), k_own_input_bytes);
    record.output_bytes = integer(node.attributes(), k_own_output_bytes);
    if (!record.input_bytes || !record.output_bytes) {
      const std::optional<std::int64_t> size = integer(node.attributes(), k_chakra_comm_size);
      if (!size && kind != CommKind::barrier) {
        return false;
      }
      const std::int64_t bytes = kind == CommKind::barrier ? 0 : *size;
      record.input_bytes = kind == CommKind::recv ? 0 : bytes;
      record.output_bytes = output_bytes(node, kind, bytes, record);
    }
    if (record.dtype.empty() && record.output_bytes) {
      const DType type = torch_dtype(torch_tensor_type(node.inputs().types())).value_or(DType::uint8);
      const bool fits = *record.input_bytes % size_of(type) == 0 && *record.output_bytes % size_of(type) == 0;
      record.dtype = fits ? type : DType::uint8;
    }
    return record.output_bytes.has_value();
  }

  /// `bytes` is what a rank puts in (of a recv, what arrives). Nothing where the group's size is not known.
  std::optional<std::int64_t> output_bytes(const Node& node, CommKind kind, std::int64_t bytes,
                                           const CallRecord& record) const {
    const auto listed = static_cast<std::int64_t>(record.group.ranks.size());
    const std::int64_t ranks = listed > 0 ? listed : record.group_size.value_or(0);
    if (kind == CommKind::send || kind == CommKind::other) {
      return 0;
    }
    if (kind == CommKind::all_gather && ranks > 0 && bytes <= INT64_MAX / ranks) {
      return bytes * ranks;
    }
    if (kind == CommKind::reduce_scatter && ranks > 0 && bytes % ranks == 0) {
      return bytes / ranks;
    }
    return kind == CommKind::all_gather || kind == CommKind::reduce_scatter ? launched_output(node)
                                                                            : std::optional(bytes);
  }

  /// Bytes of the tensors that the CPU's part of a call returns.
  std::optional<std::int64_t> launched_output(const Node& node) const {
    for (const auto* const list : {&node.control_dependencies(), &node.data_dependencies()}) {
      for (const std::uint64_t id : *list) {
        const auto found = survey_.outputs.find(id);
        if (found != survey_.outputs.end() && found->second > 0) {
          return found->second;
        }
      }
    }
    return std::nullopt;
  }

  /// Nodes of a graph are in any order, so that of their starts is taken.
  static void sort_by_start(RankStream& stream) {
    const auto earlier = [](const Times& a, const Times& b) { return a.issued < b.issued; };
    if (std::is_sorted(stream.times.begin(), stream.times.end(), earlier)) {
      return;
    }
    reorder(stream, [&](std::size_t a, std::size_t b) { return earlier(stream.times[a], stream.times[b]); });
  }

  /// Puts the calls of a stream into the order that `stands_before` says of their rows.
  template <typename Before>
  static void reorder(RankStream& stream, const Before& stands_before) {
    std::vector<std::size_t> order(stream.events.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), stands_before);
    RankStream sorted{stream.ranks, {}, {}, std::move(stream.compute)};
    for (const std::size_t row : order) {
      sorted.events.push_back(stream.events[row]);
      if (!stream.times.empty()) {
        sorted.times.push_back(stream.times[row]);
      }
    }
    stream = std::move(sorted);
  }

  ChakraSurvey survey_;
  CallBuilder builder_;
  bool is_groups_read_ = false;
  std::vector<std::int64_t> rows_;  // of our own exports: which call each is
};

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  Result<ChakraSurvey> survey = survey_chakra(path);
  Result<TextSource> source = survey ? TextSource::open(path) : tl::unexpected(survey.error());
  if (!source) {
    return tl::unexpected(source.error());
  }
  if (survey->nodes == 0 && !survey->is_own) {
    return failure(fmt::format("{}: no whole node; is this a Chakra trace (.et), and whole?", path.string()));
  }
  ChakraImport import(path, std::move(*survey));
  Reader reader(std::move(*source));
  Result<GlobalMetadata> metadata = reader.metadata();
  Node node;
  Result<bool> got = metadata ? reader.next(node) : tl::unexpected(metadata.error());
  for (; got && *got; got = reader.next(node)) {
    import.take(node);
  }
  if (!got) {
    return tl::unexpected(got.error());
  }
  return import.finish(reader.is_cut_off());
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) { return starts_as_chakra(head); }

}  // namespace commlens::formats::chakra
