// The module libcommlens-mpi-*.so: compiled once per MPI, because their headers and libraries do not mix.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include "commlens/transport/comm_mpi_algorithms.hpp"
#include "commlens/transport/comm_mpi_calls.hpp"
#include "commlens/transport/comm_mpi_queue.hpp"
#include "commlens/transport/mpi_module.hpp"

namespace commlens {
namespace {

constexpr int k_exit_status = 3;  // of a job that was aborted

/// State that decides whether the process finalises MPI when it exits; one per process, like MPI itself.
struct ProcessState {
  std::atomic<int> open = 0;              // communicators alive
  std::atomic<bool> broken = false;       // aborted, or an exception went through a communicator's owner
  std::shared_ptr<MpiProgress> progress;  // destroyed before MPI ends
};

/// Never destroyed: leave_mpi needs it at exit, after static objects are destroyed.
ProcessState& process_state() {
  static auto* const state = new ProcessState;
  return *state;
}

bool is_finalised() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  return finalised != 0;
}

/// MPI_Finalize waits for all ranks. A process that leaves early must not wait for ranks that wait for it: it
/// exits without MPI_Finalize; the launcher detects that and ends the job.
void leave_mpi() {
  if (process_state().progress != nullptr) {
    process_state().progress->stop();
  }
  if (!is_finalised() && !process_state().broken && process_state().open == 0) {
    close_mpi_tools();
    MPI_Finalize();
  }
}

class MpiCommunicator final : public Communicator {
 public:
  /// Takes `comm`, which has been made with `choices`.
  MpiCommunicator(std::shared_ptr<const MpiJob> job, MPI_Comm comm,
                  std::optional<MpiAlgorithmChoice> choices = std::nullopt)
      : job_(std::move(job)), comm_(comm), choices_(std::move(choices)) {
    ++process_state().open;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    int ranks = 0;
    int rank = 0;
    mpi_check(MPI_Comm_size(comm_, &ranks), "MPI_Comm_size");
    mpi_check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    rank_ = GroupRank{rank};
    MPI_Group group = MPI_GROUP_NULL;
    mpi_check(MPI_Comm_group(comm_, &group), "MPI_Comm_group");
    std::vector<int> here(static_cast<std::size_t>(ranks));
    std::iota(here.begin(), here.end(), 0);
    std::vector<int> global(here.size());
    mpi_check(MPI_Group_translate_ranks(group, ranks, here.data(), job_->world, global.data()),
              "MPI_Group_translate_ranks");
    MPI_Group_free(&group);
    if (job_->progress != nullptr) {
      queue_ = std::make_unique<MpiCallQueue>(job_, comm_);
    }
    for (const int member : global) {
      members_.push_back(Rank{member});
    }
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) {
      process_state().broken = true;
      static_cast<void>(queue_.release());  // its thread may wait for ranks that wait for this one
    } else if (!process_state().broken && !is_finalised()) {
      queue_.reset();
      MPI_Comm_free(&comm_);
    }
    --process_state().open;
  }

  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return rank_; }

  std::unique_ptr<Work> start(const CommCall& call) override {
    return is_queued(call) ? queue_->start(call) : start_mpi_call(*job_, comm_, call);
  }
  void run(const CommCall& call) override {
    if (is_queued(call)) {
      queue_->run(call);
    } else {
      const MpiAlgorithmChoice::Scope scope(choices_ ? &*choices_ : nullptr, call.kind);
      run_mpi_call(*job_, comm_, call);
    }
  }
  bool makes_progress() const override { return job_->progress != nullptr; }
  /// Nonblocking collectives without progress overlap nothing and are slower than blocking ones
  /// (docs/adr/0006).
  bool starting_pays() const override { return makes_progress(); }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    constexpr std::int64_t k_most = std::numeric_limits<int>::max();
    if (color > k_most || key > k_most || key < -k_most) {
      throw SystemError(
          fmt::format("MPI cannot split by color {} and key {}: they must fit 32 bits", color, key));
    }
    if (queue_ != nullptr) {
      queue_->drain();
    }
    MPI_Comm part = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : static_cast<int>(color),
                             static_cast<int>(key), &part),
              "MPI_Comm_split");
    if (part == MPI_COMM_NULL) {
      return nullptr;
    }
    return std::make_unique<MpiCommunicator>(job_, part);
  }

  /// None where other threads make calls too: MPICH has one variable for the whole process.
  std::vector<std::string> algorithms(CommKind kind) const override {
    return makes_progress() ? std::vector<std::string>() : mpi_algorithms(kind, size());
  }

  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& algorithm) override {
    if (makes_progress()) {
      return Communicator::with_algorithm(kind, algorithm);
    }
    MpiAlgorithmChoice choices = choices_.value_or(MpiAlgorithmChoice());
    return choices.choose(kind, algorithm, size()).map([&]() -> std::unique_ptr<Communicator> {
      return std::make_unique<MpiCommunicator>(job_, choices.duplicate(comm_), choices);
    });
  }

  void abort(std::string_view reason) override {
    process_state().broken = true;
    fmt::print(stderr, "commlens: rank {}: {}\n", job_->rank.value, reason);
    std::fflush(stderr);
    // MPICH's launcher drops unread output when it receives the abort.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(MPI_COMM_WORLD, k_exit_status);
    std::_Exit(k_exit_status);  // if MPI_Abort returns
  }

 private:
  /// Messages are not queued: one that waits for its receiver would delay the following ones.
  bool is_queued(const CommCall& call) const { return queue_ != nullptr && !is_point_to_point(call.kind); }

  std::shared_ptr<const MpiJob> job_;
  MPI_Comm comm_;
  std::optional<MpiAlgorithmChoice> choices_;
  std::unique_ptr<MpiCallQueue> queue_;  // if calls should progress
  GroupRank rank_;
  std::vector<Rank> members_;
};

/// The program loads this module with local symbols; Open MPI's plug-ins look for its library among the
/// global symbols.
void show_library_to_its_plugins() {
  Dl_info library{};
  // NOLINTNEXTLINE(bugprone-casting-through-void,*-reinterpret-cast): dladdr takes functions so
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &library) != 0) {
    dlopen(library.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
}

/// COMMLENS_MPI_PIECE (bytes, as rank 0 has it) instead of 1 GiB: for tests, and for networks that cannot
/// move that.
Result<Bytes> piece_size(Bytes otherwise) {
  std::int64_t bytes = otherwise.value;
  if (const char* text = std::getenv("COMMLENS_MPI_PIECE"); text != nullptr) {
    bytes = parse_bytes(text).value_or(Bytes{0}).value;
  }
  mpi_check(MPI_Bcast(&bytes, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  if (bytes < 1) {
    return failure("COMMLENS_MPI_PIECE must be a size of at least one byte, as 64MiB");
  }
  return std::min(otherwise, Bytes{bytes});
}

/// `with_progress`: several threads may call MPI at once, and one of them progresses calls.
Result<std::shared_ptr<const MpiJob>> joined_job(bool with_progress) {
  auto job = std::make_shared<MpiJob>();
  int rank = 0;
  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  job->rank = Rank{rank};
  mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &job->world), "MPI_Comm_group");
  const Result<Bytes> piece = piece_size(job->piece);
  if (!piece) {
    return tl::unexpected(piece.error());
  }
  job->piece = *piece;
  job->operations = MpiOperations::made();
  if (with_progress) {
    job->progress = std::make_shared<MpiProgress>();
    process_state().progress = job->progress;
  }
  return job;
}

/// "Open MPI v4.1.4, package: …": the first line of what the library says.
std::string library_version() {
  std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + 1);
  int length = 0;
  mpi_check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view all(text.data());
  return std::string(all.substr(0, all.find('\n')));
}

Result<std::unique_ptr<Communicator>> open_world(const MpiLaunch& launch) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  int threads = MPI_THREAD_SINGLE;
  if (initialised == 0) {
    show_library_to_its_plugins();
    if (launch.chooses_algorithms) {
      // Of Open MPI. Without it, algorithms are its own decision, whatever else is set.
      setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
    }
    const int wanted = launch.progress ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    mpi_check(MPI_Init_thread(nullptr, nullptr, wanted, &threads), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::atexit(&leave_mpi);
  }
  mpi_check(MPI_Query_thread(&threads), "MPI_Query_thread");  // whoever has started MPI
  if (threads < MPI_THREAD_SERIALIZED) {
    return failure("this MPI library cannot be used from several threads; use one built with thread support");
  }
  if (launch.library_version != nullptr) {
    *launch.library_version = library_version();
  }
  int ranks = 0;
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  if (launch.ranks > 1 && ranks == 1) {
    return failure(
        fmt::format("the launcher started {} ranks, but MPI sees one: the launcher belongs to another MPI "
                    "than the module; choose the other module or the other mpirun",
                    launch.ranks));
  }
  const Result<std::shared_ptr<const MpiJob>> job =
      joined_job(launch.progress && threads == MPI_THREAD_MULTIPLE);
  if (!job) {
    return tl::unexpected(job.error());
  }
  MPI_Comm comm = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(*job, comm);
}

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_open_mpi(
    const commlens::MpiLaunch& launch, commlens::Result<std::unique_ptr<commlens::Communicator>>& world) {
  world = commlens::open_world(launch);
}
