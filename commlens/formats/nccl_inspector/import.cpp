#include "commlens/formats/nccl_inspector/import.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/json_members.hpp"
#include "commlens/formats/io/nccl_comms.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::nccl_inspector {
namespace {

constexpr const char* k_no_json = "line that is no JSON object or is cut off";
constexpr const char* k_no_header = "call before any header";
constexpr const char* k_no_start = "start of a call not reported, placed after the call before";

/// Whose calls a line is about; later versions write it once for many lines.
struct InspectorHeader {
  std::string id;
  std::string process;
  std::int64_t rank = 0;
  std::int64_t ranks = 0;
  std::int64_t dumped_us = 0;
};

/// A call but for its communicator and times; many are alike.
struct InspectorShape {
  const NcclFunction* function = nullptr;
  std::int64_t bytes = 0;
  std::int64_t peer = -1;
  std::string timing;  // what the time is of
  friend auto operator<=>(const InspectorShape&, const InspectorShape&) = default;
};

struct InspectorCall {
  NcclComms::Row comm = 0;
  std::uint32_t shape = 0;
  std::int64_t start_us = -1;  // -1: not known
  std::int64_t dumped_us = 0;
  std::int64_t duration_ns = 0;
};

/// The first moment that a kernel of the call ran or, without kernels, at which it was enqueued.
std::int64_t first_start_us(const nlohmann::json& call, const char* start_key) {
  const nlohmann::json* const trace = json_member(call, "event_trace_ts");
  if (trace == nullptr) {
    return -1;
  }
  std::optional<std::int64_t> first;
  if (const nlohmann::json* const kernels = json_member(*trace, "kernel_events");
      kernels != nullptr && kernels->is_array()) {
    for (const nlohmann::json& kernel : *kernels) {
      const auto start = json_whole(kernel, "kernel_start_ts");
      if (start && *start > 0) {
        first = std::min(first.value_or(*start), *start);
      }
    }
  }
  return first.value_or(json_whole(*trace, start_key).value_or(-1));
}

/// Reads lines such as
/// {"header":{"id":"0x1","rank":0,"n_ranks":2},"metadata":{"inspector_output_format_version":"v4.0"},
///  "coll_perf":{"coll":"AllReduce","coll_msg_size_bytes":8,"coll_exec_time_us":3}}
class InspectorReader {
 public:
  explicit InspectorReader(std::string origin)
      : builder_("NCCL Inspector", origin), origin_(std::move(origin)) {}

  void take(std::string_view line) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      return;
    }
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object()) {
      builder_.provenance().skip(k_no_json);
      return;
    }
    take_header(record);
    if (const nlohmann::json* const collective = json_member(record, "coll_perf")) {
      take_call(*collective, "coll");
    }
    if (const nlohmann::json* const message = json_member(record, "p2p_perf")) {
      take_call(*message, "p2p");
    }
    if (json_member(record, "proxy_perf") != nullptr || json_member(record, "proxy_trace") != nullptr) {
      builder_.provenance().skip("record of the proxy thread (parts of calls)");
    }
  }

  Result<Trace> finish();

 private:
  void take_header(const nlohmann::json& record);
  void take_call(const nlohmann::json& call, const std::string& prefix);
  NcclComms::Row comm_of(const InspectorHeader& header);
  std::optional<OpId> op_of(const InspectorCall& call);
  GroupId group_of(const InspectorCall& call, const InspectorShape& shape);
  void add_events(Rank rank, std::vector<InspectorCall>& calls);

  std::optional<InspectorHeader> header_;
  // Process and id of a communicator -> ranks of it that the process holds -> the how many-th.
  std::map<std::pair<std::string, std::string>, std::map<std::int64_t, std::int64_t>> ranks_;
  NcclComms comms_{false};
  std::vector<InspectorShape> shapes_;
  std::map<InspectorShape, std::uint32_t> shape_rows_;
  std::vector<InspectorCall> calls_;
  std::map<std::pair<NcclComms::Row, std::uint32_t>, std::optional<OpId>> ops_;
  CallBuilder builder_;
  std::string origin_;
};

void InspectorReader::take_header(const nlohmann::json& record) {
  const nlohmann::json* const header = json_member(record, "header");
  const nlohmann::json* const metadata = json_member(record, "metadata");
  if (header != nullptr) {
    const auto rank = json_whole(*header, "rank");
    const auto ranks = json_whole(*header, "n_ranks");
    header_.reset();
    if (rank && ranks && *ranks >= 1 && *ranks <= k_max_ranks && *rank >= 0 && *rank < *ranks) {
      header_ = InspectorHeader{json_text(*header, "id"), {}, *rank, *ranks, 0};
    }
  }
  if (metadata != nullptr && header_) {
    header_->process =
        fmt::format("{}:{}", json_text(*metadata, "hostname"), json_whole(*metadata, "pid").value_or(0));
    header_->dumped_us = std::max<std::int64_t>(0, json_whole(*metadata, "dump_timestamp_us").value_or(0));
  }
}

/// A process with several GPUs holds several ranks of a communicator; the n-th of them is assumed to be its
/// n-th GPU.
NcclComms::Row InspectorReader::comm_of(const InspectorHeader& header) {
  auto& ranks = ranks_[{header.process, header.id}];
  const auto [found, added] = ranks.try_emplace(header.rank, static_cast<std::int64_t>(ranks.size()));
  const NcclPrinter owner{header.process, found->second};
  const std::string pointer = fmt::format("{}#{}", header.id, header.rank);
  if (added) {
    NcclCommLine line;
    line.comm = pointer;
    line.rank = header.rank;
    line.ranks = header.ranks;
    line.device = owner.device;
    line.id = header.id;
    comms_.describe(owner, line);
  }
  NcclCallLine call;
  call.comm = pointer;
  call.ranks = header.ranks;
  return comms_.of_call(owner, call);
}

void InspectorReader::take_call(const nlohmann::json& call, const std::string& prefix) {
  const NcclFunction* const function = nccl_function(json_text(call, prefix.c_str()));
  const auto bytes = json_whole(call, (prefix + "_msg_size_bytes").c_str());
  const auto duration_us = json_number(call, (prefix + "_exec_time_us").c_str());
  if (function == nullptr) {
    builder_.provenance().skip("call of a function we do not know");
    return;
  }
  if (!header_) {
    builder_.provenance().skip(k_no_header);
    return;
  }
  constexpr double longest_us = 1e12;
  const bool is_message = is_point_to_point(function->kind);
  const std::int64_t peer = is_message ? json_whole(call, "p2p_peer").value_or(-1) : -1;
  if (!bytes || !duration_us || !(*duration_us >= 0 && *duration_us <= longest_us) ||
      !nccl_buffers(*function, DType::uint8, *bytes, header_->ranks) ||
      header_->dumped_us > INT64_MAX / 4000) {
    builder_.provenance().skip(std::string(k_skipped_impossible));
    return;
  }
  InspectorShape shape{function, *bytes, peer, json_text(call, (prefix + "_timing_source").c_str())};
  const auto [row, added] = shape_rows_.try_emplace(shape, static_cast<std::uint32_t>(shapes_.size()));
  if (added) {
    shapes_.push_back(std::move(shape));
  }
  const std::int64_t start_us = first_start_us(call, (prefix + "_start_ts").c_str());
  const bool is_said = start_us > 0 && start_us <= INT64_MAX / 4000;
  calls_.push_back({comm_of(*header_), row->second, is_said ? start_us : -1, header_->dumped_us,
                    std::llround(*duration_us * 1e3)});
}

GroupId InspectorReader::group_of(const InspectorCall& call, const InspectorShape& shape) {
  const CommKind kind = shape.function->kind;
  if (is_point_to_point(kind)) {
    return comms_.pair(call.comm, kind, shape.peer, builder_.groups());
  }
  // The root is not known; a group without a name stays without members.
  return has_root(kind) ? builder_.groups().intern_hidden(comms_.size(call.comm), "")
                        : comms_.group(call.comm, builder_.groups());
}

std::optional<OpId> InspectorReader::op_of(const InspectorCall& call) {
  const auto [found, added] = ops_.try_emplace({call.comm, call.shape});
  if (added) {
    const InspectorShape& shape = shapes_[call.shape];
    const auto buffers = nccl_buffers(*shape.function, DType::uint8, shape.bytes, comms_.size(call.comm))
                             .value_or(NcclBuffers{});
    CallRecord record;
    record.op = shape.function->kind;
    record.dtype = DType::uint8;
    record.input_bytes = buffers.input;
    record.output_bytes = buffers.output;
    record.root_unknown = true;
    record.note = valid_utf8(shape.timing);
    record.name = shape.function->kind == CommKind::other ? std::string(shape.function->name) : "";
    if (const Result<OpId> op = builder_.describe(record, group_of(call, shape))) {
      found->second = *op;
    }
  }
  return found->second;
}

void InspectorReader::add_events(Rank rank, std::vector<InspectorCall>& calls) {
  std::int64_t previous_end = INT64_MIN;
  for (const InspectorCall& call : calls) {
    std::int64_t start = call.start_us * 1000;
    if (call.start_us < 0) {
      start = std::max(std::min(previous_end, INT64_MAX / 2), call.dumped_us * 1000 - call.duration_ns);
      builder_.provenance().assume(k_no_start);
    }
    previous_end = start + call.duration_ns;
    using std::chrono::nanoseconds;
    if (const std::optional<OpId> op = op_of(call)) {
      builder_.append(rank, *op, Times{nanoseconds(start), nanoseconds(start), nanoseconds(previous_end)});
    } else {
      builder_.provenance().skip(std::string(k_skipped_impossible));
    }
  }
}

Result<Trace> InspectorReader::finish() {
  if (calls_.empty()) {
    return failure(
        fmt::format("{}: no call of the NCCL Inspector; is NCCL_INSPECTOR_ENABLE=1 set?", origin_));
  }
  if (const std::int64_t numbered = comms_.number_ranks(); numbered > 0) {
    builder_.provenance().assume(std::string(k_numbered_rank), numbered);
  }
  std::map<Rank, std::vector<InspectorCall>> by_rank;
  for (const InspectorCall& call : calls_) {
    by_rank[comms_.owner(call.comm)].push_back(call);
  }
  calls_ = {};
  for (auto& [rank, calls] : by_rank) {
    add_events(rank, calls);
    calls = {};
  }
  return builder_.finish();
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<InspectorReader>(path); }

bool sniff(const std::filesystem::path&, std::string_view head) {
  const std::string_view object = json_object_in(head);
  const std::string_view line = object.substr(0, object.find('\n'));
  const bool has_call = holds(line, "\"coll_perf\"") || holds(line, "\"p2p_perf\"");
  return holds(line, "\"inspector_output_format_version\"") || (has_call && holds(line, "\"n_ranks\""));
}

}  // namespace commlens::formats::nccl_inspector
