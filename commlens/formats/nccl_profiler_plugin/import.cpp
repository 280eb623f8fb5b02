#include "commlens/formats/nccl_profiler_plugin/import.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::nccl_profiler_plugin {
namespace {

/// The value after "key": without its quotes, if it has any; empty when the line has no such key.
std::string_view plugin_value(std::string_view line, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\":", key);
  const std::size_t start = line.find(quoted);
  if (start == std::string_view::npos) {
    return {};
  }
  line.remove_prefix(start + quoted.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (line.starts_with('"')) {
    line.remove_prefix(1);
    return line.substr(0, line.find('"'));
  }
  return line.substr(0, line.find_first_of(",}] "));
}

std::optional<std::int64_t> plugin_number(std::string_view line, std::string_view key) {
  const Result<std::int64_t> number = parse_integer(plugin_value(line, key));
  return number ? std::optional(*number) : std::nullopt;
}

struct PluginCall {
  const NcclFunction* function = nullptr;
  DType dtype = DType::uint8;
  std::int64_t count = 0;
  std::int64_t rank = 0;
  std::int64_t peer = -1;
  std::string comm;
  Algorithm algorithm = Algorithm::unknown;
  Protocol protocol = Protocol::unknown;
  std::string note;                         // words that are no algorithm or protocol known here
  std::int64_t first_start_ns = INT64_MAX;  // of its channels, on the GPU's clock
  std::int64_t last_stop_ns = 0;
  bool has_stops = true;
  bool has_channels = false;
};

/// Reads lines such as
/// {"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 1.5,
///  "args": {"CommHash": 1, "Rank": 0, "Count": 8, "Datatype": ncclFloat32}},
class PluginReader {
 public:
  explicit PluginReader(const std::string& origin)
      : origin_(origin), calls_("NCCL example profiler plug-in", origin) {}

  void take(std::string_view line) {
    const std::string_view category = plugin_value(line, "cat");
    const bool is_begin = plugin_value(line, "ph") == "b";
    if (category == "COLL" || category == "P2P") {
      close();
      if (is_begin) {
        open(line);
      }
    } else if (category == "GPU" && is_begin && is_open_) {
      take_channel(line);
    }
  }

  Result<Trace> finish();

 private:
  void open(std::string_view line);
  void take_channel(std::string_view line);
  void add(const PluginCall& call);
  void close() {
    if (is_open_) {
      found_.push_back(std::move(call_));
    }
    is_open_ = false;
  }

  std::string origin_;
  CallBuilder calls_;
  PluginCall call_;
  bool is_open_ = false;
  std::vector<PluginCall> found_;
  std::set<std::string> comms_;
};

void PluginReader::open(std::string_view line) {
  const NcclFunction* const function = nccl_function(plugin_value(line, "name"));
  const std::optional<DType> dtype = nccl_dtype(plugin_value(line, "Datatype"));
  const auto count = plugin_number(line, "Count");
  const auto rank = plugin_number(line, "Rank");
  if (function == nullptr || !dtype || !count || !rank) {
    calls_.provenance().skip("call that is cut off or of an unknown function or datatype");
    return;
  }
  call_ = {};
  call_.function = function;
  call_.dtype = *dtype;
  call_.count = *count;
  call_.rank = *rank;
  call_.peer = plugin_number(line, "Peer").value_or(-1);
  call_.comm = plugin_value(line, "CommHash");
  const std::string_view algorithm = plugin_value(line, "Algorithm");
  const std::string_view protocol = plugin_value(line, "Protocol");
  call_.algorithm = algorithm_from(algorithm).value_or(Algorithm::unknown);
  call_.protocol = protocol_from(protocol).value_or(Protocol::unknown);
  const bool has_new_words = (!algorithm.empty() && call_.algorithm == Algorithm::unknown) ||
                             (!protocol.empty() && call_.protocol == Protocol::unknown);
  call_.note = has_new_words ? valid_utf8(fmt::format("{} {}", algorithm, protocol)) : "";
  comms_.insert(call_.comm);
  is_open_ = true;
}

void PluginReader::take_channel(std::string_view line) {
  const auto start = plugin_number(line, "StartGpuClk");
  const auto stop = plugin_number(line, "StopGpuClk");
  call_.has_channels = true;
  call_.has_stops = call_.has_stops && start && stop && *start > 0 && *stop >= *start;
  if (call_.has_stops) {
    call_.first_start_ns = std::min(call_.first_start_ns, *start);
    call_.last_stop_ns = std::max(call_.last_stop_ns, *stop);
  }
}

void PluginReader::add(const PluginCall& call) {
  const NcclFunction& function = *call.function;
  // The number of ranks is not known: buffers with a part for each of them are of unknown size.
  const bool needs_ranks = function.input == NcclFunction::Buffer::count_per_rank ||
                           function.output == NcclFunction::Buffer::count_per_rank;
  const auto buffers = nccl_buffers(function, call.dtype, call.count, 1);
  if (!buffers) {
    calls_.provenance().skip(std::string(k_skipped_impossible));
    return;
  }
  CallRecord record;
  record.rank = call.rank;
  record.iteration_unknown = true;
  record.op = needs_ranks ? CommKind::other : function.kind;
  record.dtype = call.dtype;
  record.input_bytes = buffers->input;
  record.output_bytes = needs_ranks ? 0 : buffers->output;
  record.algorithm = call.algorithm;
  record.protocol = call.protocol;
  record.note = call.note;
  record.group.is_given = true;
  if (needs_ranks || function.kind == CommKind::other) {
    record.name = fmt::format("{}{}", function.name, needs_ranks ? " of unknown ranks, a rank's part" : "");
  }
  if (is_point_to_point(function.kind) && comms_.size() == 1 && call.peer >= 0) {
    const bool sends = function.kind == CommKind::send;
    record.group.ranks = {Rank{sends ? call.rank : call.peer}, Rank{sends ? call.peer : call.rank}};
  }
  if (call.has_channels && call.has_stops) {
    record.start_ns = call.first_start_ns;
    record.duration_ns = call.last_stop_ns - call.first_start_ns;
  }
  calls_.add_or_skip(record);
}

Result<Trace> PluginReader::finish() {
  close();
  for (const PluginCall& call : found_) {
    add(call);
  }
  if (comms_.size() > 1) {
    calls_.provenance().assume("rank not reported, that in the call's communicator taken",
                               static_cast<std::int64_t>(found_.size()));
  }
  Trace trace = calls_.finish();
  if (trace.streams.empty()) {
    return failure(
        fmt::format("{}: no call (category COLL or P2P) of NCCL's example profiler plug-in", origin_));
  }
  return trace;
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<PluginReader>(path); }

bool sniff(const std::filesystem::path&, std::string_view head) {
  constexpr std::array<std::string_view, 9> categories = {
      "GROUP", "GROUP_API", "COLL", "COLL_API", "P2P", "GPU", "P2P_API", "PROXY", "KERNEL_LAUNCH"};
  const std::size_t start = head.find_first_not_of("[ \t\r\n");
  const std::string_view line =
      start == std::string_view::npos ? "" : head.substr(start, head.find('\n', start) - start);
  return line.starts_with("{\"name\": \"") && plugin_value(line, "ph") == "b" &&
         plugin_number(line, "tid") == 1 &&
         std::find(categories.begin(), categories.end(), plugin_value(line, "cat")) != categories.end();
}

}  // namespace commlens::formats::nccl_profiler_plugin
