// Written against the interface of NCCL 2.x; docs/results/nccl.md says what was run on a GPU.
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/call_check.hpp"
#include "commlens/transport/nccl_algorithms.hpp"
#include "commlens/transport/nccl_api.hpp"
#include "commlens/transport/nccl_handle.hpp"
#include "commlens/transport/nccl_world.hpp"

namespace commlens {
namespace {

class NcclWork final : public Work {
 public:
  /// Complete when the current work of the handle's stream is. With `host_waits`, wait() blocks until then.
  NcclWork(std::shared_ptr<NcclHandle> handle, bool host_waits)
      : handle_(std::move(handle)), host_waits_(host_waits) {
    const NcclApi& api = handle_->api();
    handle_->gpu(api.event_create(&done_, k_event_without_timing), "creating an event");
    handle_->gpu(api.event_record(done_, handle_->stream()), "recording an event");
  }
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;
  ~NcclWork() override { handle_->api().event_destroy(done_); }

  void wait() override {
    handle_->use_device();
    handle_->throw_async_error();
    const NcclApi& api = handle_->api();
    if (!host_waits_) {
      handle_->gpu(api.stream_wait_event(nullptr, done_, 0), "waiting for an event");
      return;
    }
    // Polls instead of blocking: the call never ends if a peer is lost.
    while (!is_complete()) {
      std::this_thread::yield();
    }
  }

  bool is_complete() override {
    handle_->use_device();
    const int state = handle_->api().event_query(done_);
    if (state == k_gpu_success) {
      return true;
    }
    if (state != k_gpu_not_ready) {
      handle_->gpu(state, "an NCCL call under way");
    }
    handle_->throw_async_error();
    return false;
  }

 private:
  std::shared_ptr<NcclHandle> handle_;
  bool host_waits_;
  NcclEvent done_ = nullptr;
};

NcclType reduced_type(DType type) {
  switch (type) {
    case DType::fp64:
      return NcclType::fp64;
    case DType::fp32:
      return NcclType::fp32;
    case DType::fp16:
      return NcclType::fp16;
    case DType::bf16:
      return NcclType::bf16;
    case DType::int64:
      return NcclType::int64;
    case DType::int32:
      return NcclType::int32;
    case DType::int8:
      return NcclType::int8;
    case DType::uint8:
      return NcclType::uint8;
    case DType::int16:
    case DType::fp8:
    case DType::boolean:
      break;
  }
  throw SystemError(fmt::format("NCCL cannot add or compare {}", name_of(type)));
}

std::unique_ptr<Communicator> connected(const NcclApi& api, int device, Communicator& control,
                                        std::unique_ptr<Communicator> owned);

/// One call that is enqueued on the handle's stream.
class Issue {
 public:
  Issue(const NcclHandle& handle, const CommCall& call, GroupRank self, std::int64_t ranks)
      : api_(handle.api()),
        handle_(handle),
        comm_(handle.comm()),
        call_(call),
        self_(static_cast<int>(self.value)),
        ranks_(static_cast<int>(ranks)),
        peer_(static_cast<int>(call.peer.value)) {}

  /// Throws SystemError unless the call is valid and this NCCL can make it.
  void check_call() const {
    throw_fault_of(call_, GroupRank{self_}, ranks_);
    if (!is_reducing(call_.kind)) {
      return;
    }
    static_cast<void>(type());
    if (call_.reduction == ReduceOp::avg && api_.version < k_nccl_version_of_avg) {
      throw SystemError(
          fmt::format("{}: {} has no averages; version 2.10 or later is needed", to_text(call_), api_.name));
    }
  }

  /// After check_call().
  void issue() const {
    switch (call_.kind) {
      case CommKind::all_reduce:
        check(api_.all_reduce(in(), out(), count(call_.input), type(), op(), comm_, stream()),
              "ncclAllReduce");
        return;
      case CommKind::reduce_scatter:
        reduce_scatter();
        return;
      case CommKind::reduce:
        check(api_.reduce(in(), out(), count(call_.input), type(), op(), peer_, comm_, stream()),
              "ncclReduce");
        return;
      case CommKind::all_gather:
        all_gather();
        return;
      case CommKind::broadcast:
        check(api_.broadcast(in(), out(), bytes(call_.output), NcclType::uint8, peer_, comm_, stream()),
              "ncclBroadcast");
        return;
      case CommKind::send:
        send({}, call_.input, peer_);
        return;
      case CommKind::recv:
        recv({}, call_.output, peer_);
        return;
      case CommKind::all_to_all:
        as_one([&] { all_to_all(); });
        return;
      case CommKind::barrier:
        check(api_.all_reduce(handle_.cell(), handle_.cell(), 1, NcclType::int32, NcclReduction::sum, comm_,
                              stream()),
              "ncclAllReduce of a barrier");
        return;
      case CommKind::other:
        as_one([&] { call_.other == OtherCall::gather ? gather() : scatter(); });
        return;
    }
  }

 private:
  /// The calls that `body` makes run as one.
  template <typename Body>
  void as_one(const Body& body) const {
    check(api_.group_start(), "ncclGroupStart");
    body();
    check(api_.group_end(), "ncclGroupEnd");
  }

  /// Calls body(rank, first element, elements) for all parts.
  template <typename Body>
  static void for_parts(std::span<const Elements> parts, const Body& body) {
    Elements first;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      body(static_cast<int>(rank), first, parts[rank]);
      first = first + parts[rank];
    }
  }

  /// Unequal parts: a reduce for each.
  void reduce_scatter() const {
    if (!has_parts(call_)) {
      check(api_.reduce_scatter(in(), out(), count(call_.output), type(), op(), comm_, stream()),
            "ncclReduceScatter");
      return;
    }
    as_one([&] {
      for_parts(call_.input_parts, [&](int root, Elements first, Elements part) {
        if (part.value > 0) {
          check(api_.reduce(in(first), root == self_ ? out() : nullptr, count(part), type(), op(), root,
                            comm_, stream()),
                "ncclReduce of a reduce_scatter");
        }
      });
    });
  }

  /// Unequal parts: a broadcast for each.
  void all_gather() const {
    if (!has_parts(call_)) {
      check(api_.all_gather(in(), out(), bytes(call_.input), NcclType::uint8, comm_, stream()),
            "ncclAllGather");
      return;
    }
    as_one([&] {
      for_parts(call_.output_parts, [&](int root, Elements first, Elements part) {
        if (part.value > 0) {
          check(api_.broadcast(root == self_ ? in() : nullptr, out(first), bytes(part), NcclType::uint8, root,
                               comm_, stream()),
                "ncclBroadcast of an all_gather");
        }
      });
    });
  }

  /// NCCL has an all-to-all since 2.28 only; a group of sends and receives runs as one call.
  void all_to_all() const {
    if (has_parts(call_)) {
      for_parts(call_.input_parts, [&](int to, Elements first, Elements part) { send(first, part, to); });
      for_parts(call_.output_parts,
                [&](int from, Elements first, Elements part) { recv(first, part, from); });
      return;
    }
    const Elements part{call_.input.value / ranks_};
    for (int rank = 0; rank < ranks_; ++rank) {
      send({rank * part.value}, part, rank);
      recv({rank * part.value}, part, rank);
    }
  }

  void gather() const {
    send({}, call_.input, peer_);
    Elements at;
    for (int source = 0; self_ == peer_ && source < ranks_; ++source) {
      const Elements part = part_of(call_.output_parts, call_.input, source);
      recv(at, part, source);
      at += part;
    }
  }

  void scatter() const {
    Elements at;
    for (int destination = 0; self_ == peer_ && destination < ranks_; ++destination) {
      const Elements part = part_of(call_.input_parts, call_.output, destination);
      send(at, part, destination);
      at += part;
    }
    recv({}, call_.output, peer_);
  }

  static Elements part_of(std::span<const Elements> parts, Elements equal, int rank) {
    return parts.empty() ? equal : parts[static_cast<std::size_t>(rank)];
  }

  void send(Elements first, Elements part, int to) const {
    check(api_.send(in(first), bytes(part), NcclType::uint8, to, comm_, stream()), "ncclSend");
  }
  void recv(Elements first, Elements part, int from) const {
    check(api_.recv(out(first), bytes(part), NcclType::uint8, from, comm_, stream()), "ncclRecv");
  }

  const void* in(Elements first = {}) const {
    return static_cast<const char*>(call_.input_buffer) + (first * call_.dtype).value;
  }
  void* out(Elements first = {}) const {
    return static_cast<char*>(call_.output_buffer) + (first * call_.dtype).value;
  }
  NcclStream stream() const { return handle_.stream(); }
  NcclType type() const { return reduced_type(call_.dtype); }
  NcclReduction op() const {
    if (call_.reduction == ReduceOp::avg) {
      return NcclReduction::avg;
    }
    return call_.reduction == ReduceOp::sum ? NcclReduction::sum : NcclReduction::max;
  }
  static std::size_t count(Elements elements) { return static_cast<std::size_t>(elements.value); }
  std::size_t bytes(Elements elements) const {
    return static_cast<std::size_t>((elements * call_.dtype).value);
  }
  void check(int error, const char* function) const { handle_.nccl(error, function); }

  const NcclApi& api_;
  const NcclHandle& handle_;
  NcclComm comm_;
  const CommCall& call_;
  int self_;
  int ranks_;
  int peer_;
};

class NcclCommunicator final : public Communicator {
 public:
  /// `owned` is null, or holds `control`.
  NcclCommunicator(std::shared_ptr<NcclHandle> handle, Communicator& control,
                   std::unique_ptr<Communicator> owned)
      : owned_control_(std::move(owned)), control_(control), handle_(std::move(handle)) {}

  const std::vector<Rank>& members() const override { return control_.members(); }
  GroupRank rank() const override { return control_.rank(); }
  bool makes_progress() const override { return true; }  // a stream of its own

  std::unique_ptr<Work> start(const CommCall& call) override {
    const Issue issue(*handle_, call, rank(), size());
    issue.check_call();
    handle_->use_device();
    handle_->follow_default_stream();
    issue.issue();
    return std::make_unique<NcclWork>(handle_, call.kind == CommKind::barrier);
  }

  std::unique_ptr<Work> start_group(std::span<const CommCall> calls) override {
    std::vector<Issue> issues;
    bool host_waits = false;
    for (const CommCall& call : calls) {
      issues.emplace_back(*handle_, call, rank(), size()).check_call();
      host_waits |= call.kind == CommKind::barrier;
    }
    handle_->use_device();
    handle_->follow_default_stream();
    handle_->nccl(handle_->api().group_start(), "ncclGroupStart");
    for (const Issue& issue : issues) {
      issue.issue();
    }
    handle_->nccl(handle_->api().group_end(), "ncclGroupEnd");
    return std::make_unique<NcclWork>(handle_, host_waits);
  }

  /// ncclCommSplit exists since NCCL 2.18 only; this uses the functions that made the world.
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    std::unique_ptr<Communicator> control = control_.split(color, key);
    if (control == nullptr) {
      return nullptr;
    }
    Communicator& part = *control;
    return connected(handle_->api(), handle_->device(), part, std::move(control));
  }

  std::vector<std::string> algorithms(CommKind kind) const override {
    return size() > 1 ? nccl_algorithms(kind) : std::vector<std::string>();
  }

  /// Its calls of other kinds are restricted too, and fail where they have no such algorithm.
  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& algorithm) override {
    const std::vector<std::string> names = algorithms(kind);
    if (std::find(names.begin(), names.end(), algorithm) == names.end()) {
      return Communicator::with_algorithm(kind, algorithm);
    }
    const NcclAlgorithmScope scope(algorithm);
    control_.barrier();  // all ranks have set it
    std::unique_ptr<Communicator> chosen = split(0, rank().value);
    control_.barrier();  // and have read it
    return chosen;
  }

  /// `control` notifies every rank of the job: MPI ends the processes, threads share NcclJobEnd.
  void abort(std::string_view reason) override {
    control_.abort(reason);
    nccl_job_end().end(reason);
  }

 private:
  std::unique_ptr<Communicator> owned_control_;
  Communicator& control_;
  std::shared_ptr<NcclHandle> handle_;
};

/// Sends the unique id of a new NCCL communicator from the first rank of `control` to all, and joins it.
std::unique_ptr<Communicator> connected(const NcclApi& api, int device, Communicator& control,
                                        std::unique_ptr<Communicator> owned) {
  auto handle = std::make_shared<NcclHandle>(api, device);
  NcclUniqueId id;
  if (control.rank() == GroupRank{0}) {
    handle->nccl(api.get_unique_id(&id), "ncclGetUniqueId");
  }
  const Elements bytes{static_cast<std::int64_t>(id.bytes.size())};
  control.run({.kind = CommKind::broadcast,
               .dtype = DType::uint8,
               .input_buffer = id.bytes.data(),
               .output_buffer = id.bytes.data(),
               .input = bytes,
               .output = bytes});
  handle->connect(static_cast<int>(control.size()), id, static_cast<int>(control.rank().value));
  return std::make_unique<NcclCommunicator>(std::move(handle), control, std::move(owned));
}

/// Why this rank cannot join; std::nullopt if it can.
std::optional<std::string> obstacle(const Result<const NcclApi*>& api, int device) {
  if (!api) {
    return api.error().message;
  }
  int devices = 0;
  if (const int error = (*api)->get_device_count(&devices); error != k_gpu_success) {
    return fmt::format("no GPU can be used: {}", (*api)->gpu_error_string(error));
  }
  if (device < 0 || device >= devices) {
    return fmt::format("there is no GPU {}: this machine has {}", device, devices);
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(const NcclApi& api, Communicator& control, int device) {
  return connected(api, device, control, nullptr);
}

Result<std::unique_ptr<Communicator>> open_nccl_world(Communicator& control, int device) {
  const Result<const NcclApi*> api = loaded_nccl();
  const std::optional<std::string> reason = obstacle(api, device);
  // A rank that cannot join must not leave the others waiting for it.
  std::int32_t failed = reason ? 1 : 0;
  control.run({.kind = CommKind::all_reduce,
               .dtype = DType::int32,
               .reduction = ReduceOp::max,
               .input_buffer = &failed,
               .output_buffer = &failed,
               .input = {1},
               .output = {1}});
  if (reason) {
    return failure(*reason);
  }
  if (failed != 0) {
    return failure("another rank of the job cannot use its GPU");
  }
  return nccl_communicator(**api, control, device);
}

}  // namespace commlens
