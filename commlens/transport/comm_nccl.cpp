// Written against the interface of NCCL 2.x; docs/results/nccl.md says what was run on a GPU.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "commlens/transport/nccl_algorithms.hpp"
#include "commlens/transport/nccl_api.hpp"
#include "commlens/transport/nccl_world.hpp"

namespace commlens {
namespace {

class NcclHandle;

/// The end of the job for all NCCL communicators of the process: a rank that waits for a lost one is only
/// freed by aborting its own communicator.
class JobEnd {
 public:
  void add(NcclHandle* handle);
  void remove(NcclHandle* handle);
  /// The first reason counts.
  void end(std::string_view reason);
  void throw_if_ended();

 private:
  std::mutex mutex_;
  std::vector<NcclHandle*> handles_;
  std::optional<std::string> reason_;
};

JobEnd& job_end() {
  static JobEnd end;
  return end;
}

/// What a communicator and its works own on the device.
class NcclHandle {
 public:
  NcclHandle(const NcclApi& api, int device) : api_(api), device_(device) {
    use_device();
    gpu(api_.stream_create(&stream_, k_stream_non_blocking), "creating a stream");
    gpu(api_.event_create(&ready_, k_event_without_timing), "creating an event");
    gpu(api_.allocate(&cell_, sizeof(std::int32_t)), "allocating memory");
    job_end().add(this);
  }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  ~NcclHandle() {
    if (std::uncaught_exceptions() > 0) {
      // Destroying it would wait for calls of other ranks, which wait for calls that this rank no longer
      // makes.
      job_end().end("another rank of this process has failed");
    }
    job_end().remove(this);
    api_.set_device(device_);
    if (NcclComm comm = comm_.exchange(nullptr); comm != nullptr) {
      api_.comm_destroy(comm);
    }
    api_.free(cell_);
    api_.event_destroy(ready_);
    api_.stream_destroy(stream_);
  }

  const NcclApi& api() const { return api_; }
  NcclStream stream() const { return stream_; }
  void* cell() const { return cell_; }
  int device() const { return device_; }

  /// Autograd calls from its own threads, whose current device differs.
  void use_device() const { gpu(api_.set_device(device_), "choosing the device"); }

  void connect(int ranks, const NcclUniqueId& id, int rank) {
    NcclComm comm = nullptr;
    nccl(api_.comm_init_rank(&comm, ranks, id, rank), "ncclCommInitRank");
    comm_ = comm;
  }

  /// The communicator, unless the job has ended.
  NcclComm comm() const {
    job_end().throw_if_ended();
    NcclComm comm = comm_;
    if (comm == nullptr) {
      throw SystemError("this NCCL communicator is closed");
    }
    return comm;
  }

  /// Frees threads that are inside a call of the communicator or wait for one. NCCL allows this concurrently
  /// with calls of other threads.
  void abort() {
    const std::lock_guard lock(mutex_);
    if (NcclComm comm = comm_.exchange(nullptr); comm != nullptr) {
      api_.comm_abort(comm);
    }
  }

  /// Throws an asynchronous error of the communicator (a lost peer, a device error).
  void throw_async_error() {
    job_end().throw_if_ended();
    int query = k_nccl_success;
    int error = k_nccl_success;
    {
      const std::lock_guard lock(mutex_);  // not held while throwing: JobEnd takes it under its own
      if (comm_ != nullptr) {
        query = api_.comm_get_async_error(comm_, &error);
      }
    }
    nccl(query, "ncclCommGetAsyncError");
    nccl(error == k_nccl_in_progress ? k_nccl_success : error, "an NCCL call under way");
  }

  /// Orders the work of the default stream so far before the next work of the communicator's stream.
  void follow_default_stream() const {
    gpu(api_.event_record(ready_, nullptr), "recording an event");
    gpu(api_.stream_wait_event(stream_, ready_, 0), "waiting for an event");
  }

  void gpu(int error, const char* what) const {
    if (error != k_gpu_success) {
      throw SystemError(fmt::format("{} failed: {}", what, api_.gpu_error_string(error)));
    }
  }

  void nccl(int error, const char* what) const {
    if (error != k_nccl_success) {
      job_end().throw_if_ended();  // then this error is a consequence of the end
      throw SystemError(fmt::format("{} failed: {} ({})", what, api_.get_error_string(error), api_.name));
    }
  }

 private:
  const NcclApi& api_;
  int device_;
  std::mutex mutex_;  // abort against the query of asynchronous errors
  std::atomic<NcclComm> comm_ = nullptr;
  NcclStream stream_ = nullptr;
  NcclEvent ready_ = nullptr;
  void* cell_ = nullptr;  // device memory of one int32, for barriers
};

void JobEnd::add(NcclHandle* handle) {
  const std::lock_guard lock(mutex_);
  handles_.push_back(handle);
}

void JobEnd::remove(NcclHandle* handle) {
  const std::lock_guard lock(mutex_);
  std::erase(handles_, handle);
}

void JobEnd::end(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (!reason_) {
    reason_ = reason;
  }
  for (NcclHandle* handle : handles_) {
    handle->abort();
  }
}

void JobEnd::throw_if_ended() {
  const std::lock_guard lock(mutex_);
  if (reason_) {
    throw SystemError(*reason_);
  }
}

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
  Issue(const NcclHandle& handle, const CommCall& call, std::int64_t ranks)
      : api_(handle.api()), handle_(handle), comm_(handle.comm()), call_(call), ranks_(ranks) {}

  void issue() const {
    const int peer = static_cast<int>(call_.peer.value);
    switch (call_.kind) {
      case CommKind::all_reduce:
        check(api_.all_reduce(in(), out(), count(call_.input), type(), op(), comm_, stream()),
              "ncclAllReduce");
        return;
      case CommKind::reduce_scatter:
        check(api_.reduce_scatter(in(), out(), count(call_.output), type(), op(), comm_, stream()),
              "ncclReduceScatter");
        return;
      case CommKind::reduce:
        check(api_.reduce(in(), out(), count(call_.input), type(), op(), peer, comm_, stream()),
              "ncclReduce");
        return;
      case CommKind::all_gather:
        check(api_.all_gather(in(), out(), bytes(call_.input), NcclType::uint8, comm_, stream()),
              "ncclAllGather");
        return;
      case CommKind::broadcast:
        check(api_.broadcast(in(), out(), bytes(call_.output), NcclType::uint8, peer, comm_, stream()),
              "ncclBroadcast");
        return;
      case CommKind::send:
        check(api_.send(in(), bytes(call_.input), NcclType::uint8, peer, comm_, stream()), "ncclSend");
        return;
      case CommKind::recv:
        check(api_.recv(out(), bytes(call_.output), NcclType::uint8, peer, comm_, stream()), "ncclRecv");
        return;
      case CommKind::all_to_all:
        all_to_all();
        return;
      case CommKind::barrier:
        check(api_.all_reduce(handle_.cell(), handle_.cell(), 1, NcclType::int32, NcclReduction::sum, comm_,
                              stream()),
              "ncclAllReduce of a barrier");
        return;
      case CommKind::other:
        throw SystemError("a communicator cannot make a call of kind other");
    }
  }

 private:
  /// NCCL has an all-to-all since 2.28 only; a group of sends and receives runs as one call.
  void all_to_all() const {
    const std::size_t part = bytes(call_.input) / static_cast<std::size_t>(ranks_);
    check(api_.group_start(), "ncclGroupStart");
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::size_t offset = static_cast<std::size_t>(rank) * part;
      check(api_.send(static_cast<const char*>(in()) + offset, part, NcclType::uint8, rank, comm_, stream()),
            "ncclSend of an all_to_all");
      check(api_.recv(static_cast<char*>(out()) + offset, part, NcclType::uint8, rank, comm_, stream()),
            "ncclRecv of an all_to_all");
    }
    check(api_.group_end(), "ncclGroupEnd");
  }

  const void* in() const { return call_.input_buffer; }
  void* out() const { return call_.output_buffer; }
  NcclStream stream() const { return handle_.stream(); }
  NcclType type() const { return reduced_type(call_.dtype); }
  NcclReduction op() const {
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
  std::int64_t ranks_;
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
    handle_->use_device();
    handle_->follow_default_stream();
    Issue(*handle_, call, size()).issue();
    return std::make_unique<NcclWork>(handle_, call.kind == CommKind::barrier);
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
    control_.barrier();  // all ranks of the process have set it
    std::unique_ptr<Communicator> chosen = split(0, rank().value);
    control_.barrier();  // and have read it
    return chosen;
  }

  /// `control` notifies every rank of the job: MPI ends the processes, threads share JobEnd.
  void abort(std::string_view reason) override {
    control_.abort(reason);
    job_end().end(reason);
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
  return connected(**api, device, control, nullptr);
}

}  // namespace commlens
