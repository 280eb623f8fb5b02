#include "commlens/formats/nccl_log/import.hpp"

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/nccl_comms.hpp"
#include "commlens/formats/io/nccl_lines.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/io/text_search.hpp"

namespace commlens::formats::nccl_log {
namespace {

constexpr const char* k_torn_call = "line torn apart or cut off";
constexpr const char* k_unknown_function = "call of a function we do not know";
constexpr const char* k_unknown_datatype = "call with an unknown datatype number";

/// A call but for its communicator; many are alike.
struct NcclCallShape {
  const NcclFunction* function = nullptr;
  DType dtype = DType::uint8;
  std::int64_t count = 0;
  std::int64_t root = 0;
  Reduction reduction = Reduction::unknown;
  friend auto operator<=>(const NcclCallShape&, const NcclCallShape&) = default;
};

/// Collects the calls of a log. What they mean is known at its end only, since the lines of communicators may
/// come late; until then a call takes eight bytes.
class NcclLogReader {
 public:
  explicit NcclLogReader(std::string origin) : builder_("NCCL log", origin), origin_(std::move(origin)) {}

  void take(std::string_view line) {
    if (line.find("NCCL INFO") == std::string_view::npos) {
      take_remains(line);
      return;
    }
    take_remains(for_each_nccl_message(line, [this](const NcclMessage& message) { take(message); }));
  }

  Result<Trace> finish();

 private:
  struct Call {
    NcclComms::Row comm;
    std::uint32_t shape;
  };

  void take(const NcclMessage& message);
  void take_call(const NcclPrinter& printer, const NcclCallLine& line);
  /// What is outside of NCCL's messages: the end of a call whose line was broken into has no process.
  void take_remains(std::string_view text) {
    if (text.find(" opCount ") != std::string_view::npos &&
        text.find(" sendbuff ") != std::string_view::npos) {
      builder_.provenance().skip(k_torn_call);
    }
  }
  Result<OpId> op_of(const Call& call);
  GroupId group_of(const Call& call, const NcclCallShape& shape);

  NcclComms comms_{true};
  std::vector<NcclCallShape> shapes_;
  std::map<NcclCallShape, std::uint32_t> shape_rows_;
  std::vector<Call> calls_;
  CallBuilder builder_;
  std::string origin_;
};

void NcclLogReader::take(const NcclMessage& message) {
  if (message.text.find(": opCount ") != std::string_view::npos) {
    if (const auto call = nccl_call_line(message.text)) {
      take_call(message.printer, *call);
    } else {
      builder_.provenance().skip(k_torn_call);
    }
    return;
  }
  comms_.see(message.printer);
  if (starts_nccl_call(message.text)) {
    // TUNING lines start alike: "AllReduce: 4096 Bytes -> Algo 1 proto 0 time 9.2".
    if (message.text.find("Bytes -> Algo") == std::string_view::npos) {
      builder_.provenance().skip(k_torn_call);
    }
    return;
  }
  if (const auto comm = nccl_comm_line(message.text)) {
    comms_.describe(message.printer, *comm);
  }
}

void NcclLogReader::take_call(const NcclPrinter& printer, const NcclCallLine& line) {
  const NcclFunction* const function = nccl_function(line.function);
  const std::optional<DType> dtype = nccl_dtype(line.datatype);
  if (function == nullptr || !dtype) {
    builder_.provenance().skip(function == nullptr ? k_unknown_function : k_unknown_datatype);
    return;
  }
  const bool is_possible = line.ranks >= 1 && line.ranks <= k_max_ranks && line.root >= 0 &&
                           line.root < line.ranks &&
                           nccl_buffers(*function, *dtype, line.count, line.ranks).has_value();
  if (!is_possible) {
    builder_.provenance().skip(std::string(k_skipped_impossible));
    return;
  }
  const Reduction reduction =
      is_reducing(function->kind) ? nccl_reduction(line.operation) : Reduction::unknown;
  const NcclCallShape shape{function, *dtype, line.count, line.root, reduction};
  const auto [row, added] = shape_rows_.try_emplace(shape, static_cast<std::uint32_t>(shapes_.size()));
  if (added) {
    shapes_.push_back(shape);
  }
  calls_.push_back({comms_.of_call(printer, line), row->second});
}

GroupId NcclLogReader::group_of(const Call& call, const NcclCallShape& shape) {
  const CommKind kind = shape.function->kind;
  if (!is_point_to_point(kind)) {
    return comms_.group(call.comm, builder_.groups());
  }
  return comms_.pair(call.comm, kind, shape.root, builder_.groups());
}

Result<OpId> NcclLogReader::op_of(const Call& call) {
  const NcclCallShape& shape = shapes_[call.shape];
  const auto buffers = nccl_buffers(*shape.function, shape.dtype, shape.count, comms_.size(call.comm));
  if (!buffers) {
    return failure(std::string(k_skipped_impossible));
  }
  CallRecord record;
  const CommKind kind = shape.function->kind;
  record.op = kind;
  record.dtype = shape.dtype;
  record.input_bytes = buffers->input;
  record.output_bytes = buffers->output;
  record.reduction = shape.reduction;
  record.name = kind == CommKind::other ? std::string(shape.function->name) : "";
  if (has_root(kind)) {
    record.root = comms_.member(call.comm, shape.root).value_or(Rank{shape.root}).value;
  }
  const GroupId group = group_of(call, shape);
  if (!builder_.groups().knows_members(group)) {
    record.root.reset();
  }
  return builder_.describe(record, group);
}

Result<Trace> NcclLogReader::finish() {
  if (calls_.empty()) {
    return failure(
        fmt::format("{}: no whole call of NCCL's log; run with NCCL_DEBUG=INFO "
                    "NCCL_DEBUG_SUBSYS=INIT,COLL",
                    origin_));
  }
  if (const std::int64_t numbered = comms_.number_ranks(); numbered > 0) {
    builder_.provenance().assume(std::string(k_numbered_rank), numbered);
  }
  std::unordered_map<std::uint64_t, std::optional<OpId>> ops;
  for (const Call& call : calls_) {
    const std::uint64_t key = (std::uint64_t{call.comm} << 32U) | call.shape;
    const auto [op, added] = ops.try_emplace(key);
    if (added) {
      if (const Result<OpId> made = op_of(call)) {
        op->second = *made;
      }
    }
    if (op->second) {
      builder_.append(comms_.owner(call.comm), *op->second);
    } else {
      builder_.provenance().skip(std::string(k_skipped_impossible));
    }
  }
  return builder_.finish();
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<NcclLogReader>(path); }

bool sniff(const std::filesystem::path& path, std::string_view head) {
  return any_line(path, head, k_furthest_in_log, [](std::string_view line) {
    bool is_call = false;
    if (line.find(": opCount ") != std::string_view::npos) {
      for_each_nccl_message(
          line, [&](const NcclMessage& message) { is_call = is_call || nccl_call_line(message.text); });
    }
    return is_call;
  });
}

}  // namespace commlens::formats::nccl_log
