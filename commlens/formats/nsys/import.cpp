#include "commlens/formats/nsys/import.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/nsys/report.hpp"

namespace commlens::formats::nsys {
namespace {

/// Which rank each device of a process is, and what is known of communicators.
class NsysRanks {
 public:
  NsysRanks(const NsysReport& report, Provenance& provenance) {
    for (const NsysComm& comm : report.comms()) {
      std::int64_t& ranks = sizes_[comm.comm];
      ranks = std::max(ranks, comm.ranks);
      if (!world_ || sizes_[*world_] < ranks) {
        world_ = comm.comm;
      }
    }
    for (const NsysKernel& kernel : report.kernels()) {
      devices_.insert(kernel.where);
    }
    if (!report.has_kernel_table()) {
      for (const NsysCall& call : report.calls()) {
        devices_.insert({process_of_thread(call.thread), 0});
      }
    }
    if (!number_by_communicator(report)) {
      world_.reset();
      for (const NsysDevice& device : devices_) {
        ranks_.emplace(device, static_cast<std::int64_t>(ranks_.size()));
      }
      provenance.assume(std::string(k_numbered_rank), static_cast<std::int64_t>(devices_.size()));
    }
  }

  std::optional<std::int64_t> rank(NsysDevice device) const {
    const auto found = ranks_.find(device);
    return found == ranks_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Ranks of a communicator; std::nullopt if its creation was not recorded.
  std::optional<std::int64_t> size(std::optional<std::int64_t> comm) const {
    const auto found = comm ? sizes_.find(*comm) : sizes_.end();
    return found == sizes_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Whether ranks of that communicator are ranks of the job.
  bool is_world(std::optional<std::int64_t> comm) const { return comm && comm == world_; }

 private:
  /// By the ranks of the largest communicator, when it has one of every device.
  bool number_by_communicator(const NsysReport& report) {
    std::set<std::int64_t> taken;
    for (const NsysDevice& device : devices_) {
      const auto found =
          std::find_if(report.comms().begin(), report.comms().end(), [&](const NsysComm& comm) {
            return world_ == comm.comm && comm.process == device.process &&
                   (!comm.device || *comm.device == device.device || is_alone(device));
          });
      if (found == report.comms().end() || !taken.insert(found->rank).second) {
        ranks_.clear();
        return false;
      }
      ranks_.emplace(device, found->rank);
    }
    return !devices_.empty();
  }

  /// Whether its process uses no other device.
  bool is_alone(NsysDevice device) const {
    return std::count_if(devices_.begin(), devices_.end(),
                         [&](const NsysDevice& other) { return other.process == device.process; }) == 1;
  }

  std::map<std::int64_t, std::int64_t> sizes_;  // of communicators
  std::optional<std::int64_t> world_;           // the largest
  std::set<NsysDevice> devices_;
  std::map<NsysDevice, std::int64_t> ranks_;
};

class NsysReading {
 public:
  NsysReading(const NsysReport& report, CallBuilder& calls)
      : report_(report), calls_(calls), ranks_(report, calls.provenance()) {
    for (const NsysCall& call : report.calls()) {
      waiting_[call.thread].push_back(&call);
    }
  }

  /// Calls and compute intervals handed over so far.
  std::int64_t records() const { return records_; }

  /// One record per call of NCCL that a kernel carries out, or one per kernel of which no call is known.
  void add_kernels() {
    std::vector<const NsysKernel*> by_launch;
    for (const NsysKernel& kernel : report_.kernels()) {
      by_launch.push_back(&kernel);
    }
    std::stable_sort(by_launch.begin(), by_launch.end(), [](const NsysKernel* a, const NsysKernel* b) {
      return a->launched.value_or(a->started) < b->launched.value_or(b->started);
    });
    std::map<std::int64_t, std::vector<const NsysKernel*>> by_thread;
    for (const NsysKernel* const kernel : by_launch) {
      if (kernel->thread && kernel->launched) {
        by_thread[*kernel->thread].push_back(kernel);
      }
    }
    CallsOfKernels calls_of;
    for (const auto& [thread, kernels] : by_thread) {
      match(waiting_[thread], kernels, calls_of);
    }
    for (const NsysKernel& kernel : report_.kernels()) {
      const std::int64_t rank = ranks_.rank(kernel.where).value_or(0);
      const std::vector<const NsysCall*>& calls = calls_of[&kernel];
      for (const NsysCall* const call : calls) {
        add(record_of(*call, rank), kernel.started, kernel.finished);
      }
      if (calls.empty()) {
        add(record_of(kernel, rank), kernel.started, kernel.finished);
      }
    }
    std::size_t left = 0;
    for (const auto& [thread, calls] : waiting_) {
      left += calls.size();
    }
    if (left > 0) {
      calls_.provenance().skip("call of NCCL without a kernel", static_cast<std::int64_t>(left));
    }
  }

  /// Where kernels were not traced: the calls themselves.
  void add_calls() {
    for (const NsysCall& call : report_.calls()) {
      const std::int64_t rank = ranks_.rank({process_of_thread(call.thread), 0}).value_or(0);
      add(record_of(call, rank), call.started, call.finished);
    }
    if (!report_.calls().empty()) {
      calls_.provenance().assume(
          "time of the kernel (it was not traced; that of the call on the host is used)",
          static_cast<std::int64_t>(report_.calls().size()));
    }
  }

  void add_compute(NsysDevice device, std::int64_t started, std::int64_t finished) {
    const std::optional<std::int64_t> rank = ranks_.rank(device);
    if (!rank) {
      calls_.provenance().skip("kernel of a process that does not communicate");
      return;
    }
    CallRecord record;
    record.rank = rank;
    record.is_compute = true;
    record.iteration_unknown = true;
    add(record, started, finished);
  }

 private:
  using CallsOfKernels = std::map<const NsysKernel*, std::vector<const NsysCall*>>;

  /// Gives the calls of a thread to the kernels it launched after them and before its next call.
  void match(std::deque<const NsysCall*>& waiting, std::span<const NsysKernel* const> kernels,
             CallsOfKernels& calls_of) const {
    while (!kernels.empty()) {
      std::vector<const NsysCall*> calls;
      while (!waiting.empty() && waiting.front()->started <= kernels.front()->launched) {
        calls.push_back(waiting.front());
        waiting.pop_front();
      }
      const auto next = std::find_if(kernels.begin(), kernels.end(), [&](const NsysKernel* kernel) {
        return !waiting.empty() && waiting.front()->started <= kernel->launched;
      });
      const auto launched = static_cast<std::size_t>(next - kernels.begin());
      match_group(calls, kernels.first(launched), calls_of);
      kernels = kernels.subspan(launched);
    }
  }

  /// `kernels` is not empty. Several kernels carry out a group (ncclGroupStart … ncclGroupEnd) when it has
  /// several devices or communicators. NCCL does not launch them in the order of the calls (ncclGroupCommJoin
  /// in its group.h), so calls are distinguished by what they are, or not at all.
  void match_group(std::vector<const NsysCall*>& calls, std::span<const NsysKernel* const> kernels,
                   CallsOfKernels& calls_of) const {
    if (calls.empty()) {
      return;
    }
    const NsysKernel& first = *kernels.front();
    const bool one_device = std::all_of(kernels.begin(), kernels.end(), [&](const NsysKernel* kernel) {
      return kernel->where == first.where;
    });
    const bool one_stream = std::all_of(kernels.begin(), kernels.end(), [&](const NsysKernel* kernel) {
      return kernel->where == first.where && kernel->stream == first.stream;
    });
    const bool one_comm = std::all_of(
        calls.begin(), calls.end(), [&](const NsysCall* call) { return call->comm == calls.front()->comm; });
    if (calls.size() == 1 || one_stream || (one_device && one_comm)) {
      calls_of[&first] = std::move(calls);  // later kernels are of calls that were not recorded
    } else if (!deal_alike(calls, kernels, calls_of) && !deal_by_kind(calls, kernels, calls_of)) {
      calls_.provenance().skip(
          "call of a group over several devices or streams (sizes are not distinguished)",
          static_cast<std::int64_t>(calls.size()));
    }
  }

  /// One call to each device, where all say the same.
  static bool deal_alike(const std::vector<const NsysCall*>& calls,
                         std::span<const NsysKernel* const> kernels, CallsOfKernels& calls_of) {
    const auto says = [](const NsysCall* call) {
      return std::tuple(call->function, call->comm, call->bytes, call->root, call->peer);
    };
    std::set<NsysDevice> devices;
    for (const NsysKernel* const kernel : kernels) {
      devices.insert(kernel->where);
    }
    if (calls.size() != kernels.size() || devices.size() != kernels.size() ||
        !std::all_of(calls.begin(), calls.end(),
                     [&](const NsysCall* call) { return says(call) == says(calls.front()); })) {
      return false;
    }
    for (std::size_t row = 0; row < calls.size(); ++row) {
      calls_of[kernels[row]] = {calls[row]};
    }
    return true;
  }

  /// To each kernel the call of the op in its name, where each op is there once.
  bool deal_by_kind(const std::vector<const NsysCall*>& calls, std::span<const NsysKernel* const> kernels,
                    CallsOfKernels& calls_of) const {
    std::map<CommKind, const NsysCall*> by_kind;
    for (const NsysCall* const call : calls) {
      by_kind.emplace(call->function->kind, call);
    }
    std::set<CommKind> kinds;
    for (const NsysKernel* const kernel : kernels) {
      const CommKind kind = kind_of_kernel(report_.name(kernel->name));
      if (kind == CommKind::other || !by_kind.contains(kind) || !kinds.insert(kind).second) {
        return false;
      }
    }
    if (by_kind.size() != calls.size() || kinds.size() != calls.size()) {
      return false;
    }
    for (const NsysKernel* const kernel : kernels) {
      calls_of[kernel] = {by_kind[kind_of_kernel(report_.name(kernel->name))]};
    }
    return true;
  }

  static CallRecord blank(std::int64_t rank) {
    CallRecord record;
    record.rank = rank;
    record.iteration_unknown = true;
    record.dtype = DType::uint8;  // payloads tell bytes
    record.input_bytes = record.output_bytes = 0;
    record.group.is_given = true;
    return record;
  }

  CallRecord record_of(const NsysKernel& kernel, std::int64_t rank) const {
    CallRecord record = blank(rank);
    const CommKind kind = kind_of_kernel(report_.name(kernel.name));
    record.op = kind;
    record.name = short_kernel_name(report_.name(kernel.name));
    record.root_unknown = has_root(kind);
    return record;
  }

  CallRecord record_of(const NsysCall& call, std::int64_t rank) const {
    CallRecord record = blank(rank);
    const CommKind kind = call.function->kind;
    record.op = kind;
    record.name = fmt::format("nccl{}", call.function->name);
    put_sizes(call, record);
    const std::optional<std::int64_t> ranks = ranks_.size(call.comm);
    const auto as_rank = [&](std::optional<std::int64_t> value) {
      return value && ranks && *value >= 0 && *value < *ranks ? std::optional(Rank{*value}) : std::nullopt;
    };
    if (is_point_to_point(kind)) {
      if (const std::optional<Rank> peer = as_rank(call.peer); peer && ranks_.is_world(call.comm)) {
        record.group.ranks =
            kind == CommKind::send ? std::vector{Rank{rank}, *peer} : std::vector{*peer, Rank{rank}};
      }
      return record;
    }
    record.root_unknown = has_root(kind);
    if (ranks && ranks_.is_world(call.comm)) {
      for (std::int64_t member = 0; member < *ranks; ++member) {
        record.group.ranks.push_back(Rank{member});
      }
      if (has_root(kind) && as_rank(call.root)) {
        record.root = call.root;
        record.root_unknown = false;
      }
    } else if (ranks && call.comm) {
      record.group_size = ranks;
      record.group_name = fmt::format("comm {:#x}", static_cast<std::uint64_t>(*call.comm));
    }
    return record;
  }

  /// NCCL's payload has the bytes of one message: what a rank gives to, or gets from, one other.
  void put_sizes(const NsysCall& call, CallRecord& record) const {
    if (!call.bytes) {
      calls_.provenance().skip("size of a call (the payload of its NVTX range is not there as text)");
      return;
    }
    const std::optional<std::int64_t> ranks = ranks_.size(call.comm);
    using Counted = NcclFunction::Buffer;
    const bool needs_ranks =
        call.function->input == Counted::count_per_rank || call.function->output == Counted::count_per_rank;
    if (needs_ranks && !ranks) {
      calls_.provenance().skip("size of a call (how many ranks share it is not recorded)");
      return;
    }
    const std::optional<NcclBuffers> buffers =
        nccl_buffers(*call.function, DType::uint8, *call.bytes, ranks.value_or(1));
    record.input_bytes = buffers ? buffers->input : -1;  // counted as impossible
    record.output_bytes = buffers ? buffers->output : -1;
  }

  void add(CallRecord record, std::int64_t started, std::int64_t finished) {
    std::int64_t start = 0;
    std::int64_t duration = 0;
    const bool is_absurd = __builtin_add_overflow(started, report_.session_start(), &start) ||
                           __builtin_sub_overflow(finished, started, &duration);
    record.start_ns = start;
    record.duration_ns = is_absurd ? -1 : duration;  // counted as impossible
    calls_.add_or_skip(record);
    ++records_;
  }

  const NsysReport& report_;
  CallBuilder& calls_;
  NsysRanks ranks_;
  std::map<std::int64_t, std::deque<const NsysCall*>> waiting_;  // by thread
  std::int64_t records_ = 0;
};

Result<void> read_tables(const std::filesystem::path& path, CallBuilder& calls) {
  const Result<SqliteDatabase> database = SqliteDatabase::open(path);
  if (!database) {
    return tl::unexpected(database.error());
  }
  NsysReport report(*database, calls.provenance());
  if (Result<void> read = report.read(); !read) {
    return read;
  }
  NsysReading reading(report, calls);
  Result<void> read;
  if (report.has_kernel_table()) {
    reading.add_kernels();
    read = report.visit_compute([&](NsysDevice device, std::int64_t started, std::int64_t finished) {
      reading.add_compute(device, started, finished);
    });
  } else {
    reading.add_calls();
  }
  return read && reading.records() == 0 ? failure("no communication in it") : read;
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  CallBuilder calls("Nsight Systems", path.string());
  if (const Result<void> read = read_tables(path, calls); !read) {
    return failure(fmt::format("{}: {}", path.string(), read.error().message));
  }
  return calls.finish();
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  // Tables may be named anywhere in the file. Ours say what they are in the second page (table meta).
  return head.starts_with(magic) && head.find("commlens.sqlite/") == std::string_view::npos;
}

}  // namespace commlens::formats::nsys
