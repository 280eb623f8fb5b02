#include "commlens/formats/pytorch_et/import.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/file_rank.hpp"
#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/formats/io/torch_groups.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/pytorch_et/node.hpp"

namespace commlens::formats::pytorch_et {
namespace {

/// Collects what a file's nodes say; calls are made at the end, when groups, steps and the rank are known.
class TorchEtImport {
 public:
  explicit TorchEtImport(const std::filesystem::path& path)
      : path_(path), builder_("PyTorch execution trace", path.string()) {}

  void take_run(std::string_view run) {
    for (const std::string_view json : elements_of(run)) {
      ++nodes_;
      if (may_be_communication(json)) {
        take(read_torch_et_node(json));
      }
    }
  }

  std::int64_t nodes() const { return nodes_; }
  Provenance& provenance() { return builder_.provenance(); }

  Trace finish() {
    std::stable_sort(calls_.begin(), calls_.end(),
                     [](const TorchEtCall& a, const TorchEtCall& b) { return a.id < b.id; });
    find_groups();
    const std::int64_t rank = find_rank();
    for (const TorchEtCall& call : calls_) {
      add(call, rank);
    }
    return builder_.finish();
  }

 private:
  void take(TorchEtNode node) {
    switch (node.kind) {
      case TorchEtNode::Kind::call:
        take_call(std::move(node.call));
        break;
      case TorchEtNode::Kind::groups:
        if (!groups_.read_list(node.groups)) {
          provenance().skip("list of process groups that cannot be read");
        }
        break;
      case TorchEtNode::Kind::step:
        steps_[node.id] = node.step;
        break;
      case TorchEtNode::Kind::unreadable:
        provenance().skip("node that cannot be read");
        break;
      case TorchEtNode::Kind::other:
        break;
    }
  }

  void take_call(TorchEtCall call) {
    if (torch_collective(call.name).moves_data) {
      calls_.push_back(std::move(call));
    } else {
      provenance().skip("wait or set-up of a collective");
    }
  }

  /// What the calls tell of groups that the list at the start lacks.
  void find_groups() {
    for (const TorchEtCall& call : calls_) {
      has_one_group_ = has_one_group_ && call.group == calls_.front().group;
      const std::int64_t size = size_by_tensors(call);
      StridedGroup group = call.members;
      group.size = group.size > 0 ? group.size : size;
      groups_.add(call.group, group);
    }
  }

  /// A gathered whole has a part per rank.
  static std::int64_t size_by_tensors(const TorchEtCall& call) {
    const CommKind kind = torch_collective(call.name).kind;
    const std::int64_t part = kind == CommKind::all_gather ? call.input.bytes : call.output.bytes;
    const std::int64_t whole = kind == CommKind::all_gather ? call.output.bytes : call.input.bytes;
    const bool has_parts = kind == CommKind::all_gather || kind == CommKind::reduce_scatter;
    return has_parts && part > 0 && whole % part == 0 ? whole / part : 0;
  }

  /// Whether the `rank` of a call is this rank's own place in the group: rooted and paired calls name
  /// another.
  static bool tells_own_place(CommKind kind) {
    return !has_root(kind) && !is_point_to_point(kind) && kind != CommKind::other;
  }

  /// The global rank: a place in a group whose ranks are known; else the number after "rank" in the file's
  /// name; else the place in the only group there is, which is assumed to be that of all ranks; else the
  /// number that ends the name.
  std::int64_t find_rank() {
    std::optional<std::int64_t> place;
    for (const TorchEtCall& call : calls_) {
      if (!call.rank || !tells_own_place(torch_collective(call.name).kind)) {
        continue;
      }
      if (const auto global = groups_.find(call.group).global(*call.rank)) {
        return *global;
      }
      place = call.rank;
    }
    if (const std::optional<std::int64_t> named = rank_by_word(path_)) {
      return *named;
    }
    if (place && has_one_group_ && *place >= 0 && *place < k_max_ranks) {
      provenance().assume("rank not reported, taken from the place in the only group");
      return *place;
    }
    const std::optional<std::int64_t> named = rank_in_name(path_);
    if (!named && !calls_.empty()) {
      provenance().assume(k_rank_unsaid);
    }
    return named.value_or(0);
  }

  void add(const TorchEtCall& call, std::int64_t rank) {
    const CommKind kind = torch_collective(call.name).kind;
    const TorchGroup& group = groups_.find(call.group);
    CallRecord record;
    record.rank = rank;
    record.op = kind;
    record.name = kind == CommKind::other ? call.name : "";
    record.dtype = call.dtype;
    const auto step = steps_.upper_bound(call.id);
    record.iteration_unknown = step == steps_.begin();
    if (!record.iteration_unknown) {
      record.iteration = std::prev(step)->second;
    }
    if (is_point_to_point(kind)) {
      set_pair(call, group, kind, record);
    } else {
      set_group(group, name_of_group(call), record);
      record.root = has_root(kind) && call.rank ? group.global(*call.rank) : std::nullopt;
      record.root_unknown = !record.root;
    }
    const std::optional<Buffers> buffers = buffers_of(call, kind, group.size);
    if (!buffers) {
      provenance().skip("call whose size cannot be determined");
      return;
    }
    record.input_bytes = buffers->input;
    record.output_bytes = buffers->output;
    builder_.add_or_skip(record);
  }

  /// Addresses differ between the processes of a job, so the only group has a name that they share.
  std::string name_of_group(const TorchEtCall& call) const {
    const bool is_address =
        call.group.size() > 6 && call.group.find_first_not_of("0123456789") == std::string::npos;
    return is_address && has_one_group_ ? "the only process group" : "pg " + call.group;
  }

  static void set_pair(const TorchEtCall& call, const TorchGroup& group, CommKind kind, CallRecord& record) {
    record.group.is_given = true;
    const std::optional<std::int64_t> peer = call.rank ? group.global(*call.rank) : std::nullopt;
    if (peer) {
      const Rank self{record.rank.value_or(0)};
      record.group.ranks =
          kind == CommKind::send ? std::vector{self, Rank{*peer}} : std::vector{Rank{*peer}, self};
    }
  }

  /// Both buffers as docs/formats/calls.md defines them; nothing when the trace does not report how large
  /// they are.
  struct Buffers {
    std::int64_t input = 0;
    std::int64_t output = 0;
  };
  static std::optional<Buffers> buffers_of(const TorchEtCall& call, CommKind kind, std::int64_t ranks) {
    const std::int64_t input = call.input.bytes;
    const std::int64_t output = call.output.bytes;
    if (kind == CommKind::barrier) {
      return Buffers{};
    }
    if (!call.input.are_given && !call.output.are_given) {
      return kind == CommKind::other ? std::optional(Buffers{}) : std::nullopt;
    }
    switch (kind) {
      case CommKind::send:
        return Buffers{std::max(input, output), 0};
      case CommKind::recv:
        return Buffers{0, std::max(input, output)};
      case CommKind::all_gather:
      case CommKind::reduce_scatter:
        if (call.input.are_given && call.output.are_given) {
          return Buffers{input, output};
        }
        return call.input.are_given ? by_size(input, kind, ranks) : std::nullopt;
      case CommKind::other:
        return Buffers{input, output};
      default:
        return Buffers{call.input.are_given ? input : output,
                       kind == CommKind::all_to_all && call.output.are_given ? output
                       : call.input.are_given                                ? input
                                                                             : output};
    }
  }

  static std::optional<Buffers> by_size(std::int64_t input, CommKind kind, std::int64_t ranks) {
    if (kind == CommKind::reduce_scatter) {
      return ranks > 0 && input % ranks == 0 ? std::optional(Buffers{input, input / ranks}) : std::nullopt;
    }
    return ranks > 0 && input <= INT64_MAX / ranks ? std::optional(Buffers{input, input * ranks})
                                                   : std::nullopt;
  }

  std::filesystem::path path_;
  CallBuilder builder_;
  TorchGroups groups_;
  std::vector<TorchEtCall> calls_;
  std::map<std::int64_t, std::int64_t> steps_;  // by the id of the node that is the step
  std::int64_t nodes_ = 0;
  bool has_one_group_ = true;  // for all calls
};

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  Result<JsonStream> stream = JsonStream::open(path, "nodes");
  if (!stream) {
    return tl::unexpected(stream.error());
  }
  TorchEtImport import(path);
  JsonStream::Piece piece;
  Result<bool> got = stream->next(piece);
  for (; got && *got; got = stream->next(piece)) {
    if (piece.is_run) {
      import.take_run(piece.json);
    }
  }
  if (!got) {
    return tl::unexpected(got.error());
  }
  if (import.nodes() == 0) {
    return failure(
        fmt::format("{}: no nodes; is this an execution trace of PyTorch, and whole?", path.string()));
  }
  if (stream->is_cut_off()) {
    import.provenance().skip("node that the end of the file cuts off");
  }
  return import.finish();
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) {
  const std::string_view object = json_object_in(head);
  return !holds(object, "\"traceEvents\"") && holds(object, "\"nodes\"") && holds(object, "\"rf_id\"") &&
         holds(object, "\"fw_parent\"");
}

}  // namespace commlens::formats::pytorch_et
