#include "commlens/formats/kineto/import.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/file_rank.hpp"
#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/kineto/calls.hpp"
#include "commlens/formats/kineto/events.hpp"

namespace commlens::formats::kineto {
namespace {

using std::chrono::nanoseconds;

struct Stretch {
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::int64_t end() const { return start + duration; }
};

/// An interval of a CPU thread that launched something.
struct Launch {
  std::int64_t correlation = 0;
  std::int64_t at = 0;
  std::uint64_t thread = 0;
};

struct ComputeKernel {
  std::int64_t correlation = 0;  // -1: none
  std::int64_t start = 0;
  std::int64_t duration = 0;
};

struct CommunicationKernel {
  std::int64_t correlation = -1;
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::string name;
  KinetoMetadata metadata;
};

/// A CPU op about a collective.
struct CollectiveOp {
  std::uint64_t thread = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::string name;
  KinetoMetadata metadata;
  std::vector<std::int64_t> elements;
  std::string type;      // of the first argument
  bool is_used = false;  // an annotation whose sizes a kernel has taken
};

struct Step {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t number = 0;
};

constexpr std::string_view k_record_op = "record_param_comms";

/// Collects what the events of a file say, then relates them.
class KinetoReader {
 public:
  KinetoReader(std::filesystem::path path, const std::string& name)
      : path_(std::move(path)), calls_("PyTorch profiler (Kineto)", name) {}

  Result<Trace> read(JsonStream stream);

 private:
  void take(const KinetoEvent& event);
  void take_kernel(const KinetoEvent& event, Stretch when);
  void take_collective(const KinetoEvent& event, Stretch when);
  void take_step(const KinetoEvent& event, Stretch when);

  void put_in_order();
  void choose_rank();
  const Launch* launch_of(std::int64_t correlation) const;
  Iteration step_at(std::int64_t time) const;
  Iteration iteration_of(std::int64_t correlation) const;
  /// The collective ops that were running on the thread at that time, innermost first.
  std::vector<CollectiveOp*> ops_around(std::uint64_t thread, std::int64_t time);
  /// An outermost collective op of a CPU thread with all that it encloses.
  struct Nest {
    TorchCall call;
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  void add_nest(const std::vector<CollectiveOp*>& ops, std::vector<Nest>& nests) const;
  std::vector<Nest> nests();
  static TorchCall call_of(const std::vector<CollectiveOp*>& ops);
  void add_kernels();
  void add_cpu_ops();
  void add(CallRecord record, std::int64_t start, std::int64_t duration, Iteration iteration);

  std::filesystem::path path_;
  CallBuilder calls_;
  KinetoJob job_;
  std::int64_t base_ = 0;  // of all stamps, in ns since 1970
  Rank rank_;
  std::vector<Launch> launches_;
  std::vector<ComputeKernel> compute_;
  std::vector<CommunicationKernel> communication_;
  std::vector<CollectiveOp> ops_;
  std::vector<Step> steps_;
  std::int64_t memory_ = 0;
  std::int64_t others_ = 0;
  std::int64_t broken_ = 0;
  std::int64_t untimed_ = 0;
};

void KinetoReader::take_kernel(const KinetoEvent& event, Stretch when) {
  const std::int64_t correlation = event.correlation.value_or(-1);
  const bool is_collective = !event.metadata.collective.empty();
  if (is_collective || is_communication_kernel(event.name)) {
    communication_.push_back(
        {correlation, when.start, when.duration, std::string(event.name), event.metadata});
  } else {
    compute_.push_back({correlation, when.start, when.duration});
  }
}

void KinetoReader::take_collective(const KinetoEvent& event, Stretch when) {
  ops_.push_back({.thread = event.thread,
                  .start = when.start,
                  .end = when.end(),
                  .name = std::string(event.name),
                  .metadata = event.metadata,
                  .elements = element_counts(event.input_dims),
                  .type = first_type(event.input_types)});
}

void KinetoReader::take_step(const KinetoEvent& event, Stretch when) {
  const std::size_t hash = event.name.find('#');
  const Result<std::int64_t> number =
      hash == std::string_view::npos ? failure("") : parse_integer(event.name.substr(hash + 1));
  if (number && *number >= 0 && *number <= INT32_MAX) {
    steps_.push_back({when.start, when.end(), *number});
  }
}

void KinetoReader::take(const KinetoEvent& event) {
  const KinetoRole role = event.phase == "X" ? role_of(event.category, event.name) : KinetoRole::none;
  if (role == KinetoRole::none || role == KinetoRole::product) {
    ++others_;
    return;
  }
  if (!event.start_ns || !event.duration_ns || *event.duration_ns < 0) {
    ++untimed_;
    return;
  }
  const Stretch when{*event.start_ns, *event.duration_ns};
  switch (role) {
    case KinetoRole::none:
    case KinetoRole::product:
      break;
    case KinetoRole::kernel:
      take_kernel(event, when);
      break;
    case KinetoRole::memory:
      ++memory_;
      break;
    case KinetoRole::launch:
      if (event.correlation) {
        launches_.push_back({*event.correlation, when.start, event.thread});
      }
      ++others_;
      break;
    case KinetoRole::step:
      take_step(event, when);
      ++others_;
      break;
    case KinetoRole::collective:
      take_collective(event, when);
      break;
  }
}

void KinetoReader::put_in_order() {
  const auto by_time = [](const auto& a, const auto& b) { return a.start < b.start; };
  std::sort(launches_.begin(), launches_.end(), [](const Launch& a, const Launch& b) {
    return std::pair(a.correlation, a.at) < std::pair(b.correlation, b.at);
  });
  std::sort(steps_.begin(), steps_.end(), by_time);
  std::stable_sort(communication_.begin(), communication_.end(), by_time);
  std::stable_sort(ops_.begin(), ops_.end(), [](const CollectiveOp& a, const CollectiveOp& b) {
    return std::tuple(a.thread, a.start, -a.end) < std::tuple(b.thread, b.start, -b.end);
  });
}

void KinetoReader::choose_rank() {
  std::optional<std::int64_t> rank = job_.rank;
  rank = rank ? rank : rank_by_word(path_);
  if (!rank || *rank < 0 || *rank >= k_max_ranks) {
    calls_.provenance().assume(k_rank_unsaid);
    rank = 0;
  }
  rank_ = Rank{*rank};
  if (job_.world_size && *job_.world_size > 0 && *job_.world_size <= k_max_ranks) {
    calls_.provenance().job_ranks = *job_.world_size;
  }
}

const Launch* KinetoReader::launch_of(std::int64_t correlation) const {
  const auto found =
      std::lower_bound(launches_.begin(), launches_.end(), correlation,
                       [](const Launch& launch, std::int64_t value) { return launch.correlation < value; });
  return found != launches_.end() && found->correlation == correlation ? &*found : nullptr;
}

Iteration KinetoReader::step_at(std::int64_t time) const {
  auto after = std::upper_bound(steps_.begin(), steps_.end(), time,
                                [](std::int64_t value, const Step& step) { return value < step.start; });
  if (after == steps_.begin() || time > std::prev(after)->end) {
    return k_unknown_iteration;
  }
  return static_cast<Iteration>(std::prev(after)->number);
}

Iteration KinetoReader::iteration_of(std::int64_t correlation) const {
  const Launch* const launch = launch_of(correlation);
  return launch == nullptr ? k_unknown_iteration : step_at(launch->at);
}

std::vector<CollectiveOp*> KinetoReader::ops_around(std::uint64_t thread, std::int64_t time) {
  constexpr int deepest = 64;  // looked at; ops nest a handful deep
  std::vector<CollectiveOp*> around;
  auto at = std::upper_bound(
      ops_.begin(), ops_.end(), std::pair(thread, time),
      [](const auto& key, const CollectiveOp& op) { return key < std::pair(op.thread, op.start); });
  for (int looked = 0; at != ops_.begin() && looked < deepest; ++looked) {
    --at;
    if (at->thread != thread) {
      break;
    }
    if (at->end >= time) {
      around.push_back(&*at);
    }
  }
  return around;
}

TorchCall KinetoReader::call_of(const std::vector<CollectiveOp*>& ops) {
  TorchCall call;
  for (const CollectiveOp* const op : ops) {
    if (op->name == k_record_op) {
      call.metadata =
          call.metadata == nullptr && !op->metadata.collective.empty() ? &op->metadata : call.metadata;
    } else if (op->name.starts_with("c10d::")) {
      call.op = call.op.empty() ? op->name : call.op;
      call.op_elements = call.op_elements.empty() ? op->elements : call.op_elements;
      call.type = call.type.empty() && has_tensor_arguments(op->name) ? op->type : call.type;
    } else if (call.annotation.empty()) {
      call.annotation = op->name;
      call.elements = op->elements;
      call.type = op->type;
    }
  }
  return call;
}

void KinetoReader::add(CallRecord record, std::int64_t start, std::int64_t duration, Iteration iteration) {
  record.rank = rank_.value;
  record.iteration_unknown = iteration == k_unknown_iteration;
  record.iteration = iteration;
  record.start_ns = base_ + start;
  record.duration_ns = duration;
  calls_.add_or_skip(record);
}

void KinetoReader::add_kernels() {
  TorchCallDescriber describer(job_, rank_, calls_.provenance());
  for (const CommunicationKernel& kernel : communication_) {
    const Launch* const launch = launch_of(kernel.correlation);
    std::vector<CollectiveOp*> ops;
    if (launch != nullptr) {
      ops = ops_around(launch->thread, launch->at);
    }
    TorchCall call = call_of(ops);
    if (!kernel.metadata.collective.empty()) {
      call.metadata = &kernel.metadata;
    } else if (call.metadata == nullptr) {
      // An annotation's sizes are those of the call: of several kernels in it the first takes them.
      const bool is_taken =
          std::any_of(ops.begin(), ops.end(), [](const CollectiveOp* op) { return op->is_used; });
      std::for_each(ops.begin(), ops.end(), [](CollectiveOp* op) { op->is_used = true; });
      call = is_taken ? TorchCall() : call;
    }
    CallRecord record;
    describer.describe(call, kernel.name, record);
    add(std::move(record), kernel.start, kernel.duration,
        launch == nullptr ? k_unknown_iteration : step_at(launch->at));
  }
  for (const ComputeKernel& kernel : compute_) {
    calls_.add_compute(
        rank_, {nanoseconds(base_ + kernel.start), nanoseconds(base_ + kernel.start + kernel.duration),
                iteration_of(kernel.correlation)});
  }
}

void KinetoReader::add_nest(const std::vector<CollectiveOp*>& ops, std::vector<Nest>& nests) const {
  const auto is_reported = [](const CollectiveOp* op) { return !op->metadata.collective.empty(); };
  if (std::count_if(ops.begin(), ops.end(), is_reported) < 2) {
    const CollectiveOp& outer = *ops.back();
    nests.push_back({call_of(ops), outer.start, outer.end});
    return;
  }
  for (const CollectiveOp* const op : ops) {  // several calls in one, as of a coalesced all_reduce
    if (is_reported(op)) {
      TorchCall call;
      call.metadata = &op->metadata;
      nests.push_back({std::move(call), op->start, op->end});
    }
  }
}

std::vector<KinetoReader::Nest> KinetoReader::nests() {
  std::vector<Nest> nests;
  for (std::size_t first = 0; first < ops_.size();) {
    const CollectiveOp& outer = ops_[first];
    std::vector<CollectiveOp*> ops;
    std::size_t next = first;
    while (next < ops_.size() && ops_[next].thread == outer.thread && ops_[next].end <= outer.end) {
      ops.push_back(&ops_[next++]);
    }
    std::reverse(ops.begin(), ops.end());  // innermost first
    add_nest(ops, nests);
    first = next;
  }
  return nests;
}

/// Without kernels that communicate (gloo, MPI): the calls of the CPU threads. One call may show on two
/// threads, as "c10d::allreduce_" where it was made and "gloo:all_reduce" where it was carried out: those
/// that tell most are taken.
void KinetoReader::add_cpu_ops() {
  std::vector<Nest> calls = nests();
  const auto has_metadata = [](const Nest& nest) { return nest.call.metadata != nullptr; };
  const auto has_annotation = [](const Nest& nest) { return !nest.call.annotation.empty(); };
  std::size_t left_out = 0;
  if (std::any_of(calls.begin(), calls.end(), has_metadata)) {
    left_out = std::erase_if(calls, std::not_fn(has_metadata));
  } else if (std::any_of(calls.begin(), calls.end(), has_annotation)) {
    left_out = std::erase_if(calls, std::not_fn(has_annotation));
  }
  if (left_out > 0) {
    calls_.provenance().skip("event of a CPU call that others describe better",
                             static_cast<std::int64_t>(left_out));
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Nest& a, const Nest& b) { return a.start < b.start; });
  TorchCallDescriber describer(job_, rank_, calls_.provenance());
  for (const Nest& nest : calls) {
    if (!torch_collective(name_of_torch_call(nest.call)).moves_data) {
      calls_.provenance().skip("call that only waits or sets up");
      continue;
    }
    CallRecord record;
    describer.describe(nest.call, {}, record);
    add(std::move(record), nest.start, nest.end - nest.start, step_at(nest.start));
  }
}

Result<Trace> KinetoReader::read(JsonStream stream) {
  JsonStream::Piece piece;
  bool has_events = false;
  while (true) {
    const Result<bool> more = stream.next(piece);
    if (!more) {
      return tl::unexpected(more.error());
    }
    if (!*more) {
      break;
    }
    if (piece.is_run) {
      has_events = true;
      broken_ += read_kineto_events(piece.json, [this](const KinetoEvent& event) { take(event); }).invalid;
    } else if (piece.key == "distributedInfo") {
      job_ = read_kineto_job(piece.json);
    } else if (piece.key == "baseTimeNanoseconds") {
      const Result<std::int64_t> base = parse_integer(piece.json);
      base_ = base && *base > 0 && *base < (std::int64_t{1} << 61) ? *base : 0;
    }
  }
  if (!has_events) {
    return failure(fmt::format("{}: no traceEvents in it{}", stream.name(),
                               stream.is_cut_off() ? " (the file was cut off)" : ""));
  }
  choose_rank();
  put_in_order();
  const bool has_kernels = !communication_.empty();
  add_kernels();
  if (!has_kernels) {
    add_cpu_ops();
  }
  Provenance& provenance = calls_.provenance();
  const auto count = [&](const char* reason, std::int64_t records) {
    if (records > 0) {
      provenance.skip(reason, records);
    }
  };
  count("event of memory copied or set", memory_);
  count("event of the CPU", others_ + (has_kernels ? static_cast<std::int64_t>(ops_.size()) : 0));
  count("event without a time", untimed_);
  count("event in broken JSON", broken_);
  count("record cut off at the end of the file", stream.is_cut_off() ? 1 : 0);
  return calls_.finish();
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  Result<JsonStream> stream = JsonStream::open(path, "traceEvents");
  if (!stream) {
    return tl::unexpected(stream.error());
  }
  KinetoReader reader(path, stream->name());
  return reader.read(std::move(*stream));
}

}  // namespace commlens::formats::kineto
