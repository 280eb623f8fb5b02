// What makes, starts and ends requests: partitioned calls, probes, start, wait, test, free, cancel.
#include <algorithm>
#include <array>
#include <new>

#include "commlens/capture/mpi_entry.hpp"
#include "commlens/capture/mpi_receives.hpp"
#include "commlens/capture/mpi_session.hpp"
#include "commlens/capture/mpi_sizes.hpp"

namespace {

using namespace commlens;
using namespace commlens::capture;

bool is_none(MPI_Request request) { return request == handles().no_request; }

/// The handles of requests before a call that may set them to null, and statuses where the program wants
/// none: a receive's says what came.
class Watched {
 public:
  Watched(int count, const MPI_Request requests[], MPI_Status* statuses) {
    count_ = static_cast<std::size_t>(std::max(count, 0));
    keys_ = some_keys_.data();
    statuses_ = statuses == MPI_STATUSES_IGNORE ? some_statuses_.data() : statuses;
    if (count_ > k_some) {
      keys_ = new (std::nothrow) std::uint64_t[count_];
      statuses_ = statuses == MPI_STATUSES_IGNORE ? new (std::nothrow) MPI_Status[count_] : statuses;
    }
    owns_statuses_ = statuses == MPI_STATUSES_IGNORE;
    if (is_complete()) {
      std::transform(requests, requests + count_, keys_, [](MPI_Request request) { return key_of(request); });
    }
  }
  ~Watched() {
    if (count_ > k_some) {
      delete[] keys_;
      if (owns_statuses_) {
        delete[] statuses_;
      }
    }
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  /// False when there was no memory; then nothing is followed.
  bool is_complete() const { return keys_ != nullptr && statuses_ != nullptr; }
  MPI_Status* statuses() const { return statuses_; }
  std::size_t count() const { return count_; }

  /// Request `at` ended with status `nth` of a call that returned `code`.
  void ended(Session& recording, std::size_t at, std::size_t nth, int code) const {
    if (keys_[at] == key_of(handles().no_request)) {
      return;
    }
    const int own_code = code == MPI_ERR_IN_STATUS ? statuses_[nth].MPI_ERROR : code;
    if (own_code != MPI_ERR_PENDING) {
      recording.completed(keys_[at], statuses_[nth], own_code);
    }
  }

 private:
  static constexpr std::size_t k_some = 64;
  std::array<std::uint64_t, k_some> some_keys_;
  std::array<MPI_Status, k_some> some_statuses_;
  std::uint64_t* keys_ = nullptr;
  MPI_Status* statuses_ = nullptr;
  std::size_t count_ = 0;
  bool owns_statuses_ = false;
};

/// Waits or tests that may end any number of requests: `real(MPI_Status*)` makes the call, `ended(Watched&,
/// code)` says which.
template <typename Real, typename Ended>
int record_ends(int count, const MPI_Request requests[], MPI_Status* statuses, const Real& real,
                const Ended& ended) {
  Session* const recording = Session::of_process();
  if (recording == nullptr || count <= 0) {
    return real(statuses);
  }
  const Watched watched(count, requests, statuses);
  if (!watched.is_complete()) {
    return real(statuses);
  }
  const int code = real(watched.statuses());
  ended(*recording, watched, code);
  return code;
}

/// The same for those that end at most one and have one status.
template <typename Real, typename Ended>
int record_one_end(int count, const MPI_Request requests[], MPI_Status* status, const Real& real,
                   const Ended& ended) {
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  return record_ends(
      count, requests, MPI_STATUSES_IGNORE, [&](MPI_Status*) { return real(seen); },
      [&](Session& recording, const Watched& watched, int code) {
        watched.statuses()[0] = *seen;
        ended(recording, watched, code);
      });
}

}  // namespace

// NOLINTBEGIN(misc-use-anonymous-namespace,readability-function-size): the names and parameters are the
// standard's

static int recorded_MPI_Wait(MPI_Request* request, MPI_Status* status) {
  auto* const real = COMMLENS_NEXT(PMPI_Wait);
  Session* const recording = Session::of_process();
  if (recording == nullptr || is_none(*request)) {
    return real(request, status);
  }
  const std::uint64_t key = key_of(*request);
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(request, seen);
  recording->completed(key, *seen, code);
  return code;
}
COMMLENS_ENTRY(MPI_Wait, PMPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status))

static int recorded_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  auto* const real = COMMLENS_NEXT(PMPI_Test);
  Session* const recording = Session::of_process();
  if (recording == nullptr || is_none(*request)) {
    return real(request, flag, status);
  }
  const std::uint64_t key = key_of(*request);
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(request, flag, seen);
  if (code != MPI_SUCCESS || *flag != 0) {
    recording->completed(key, *seen, code);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Test, PMPI_Test, (MPI_Request * request, int* flag, MPI_Status* status),
               (request, flag, status))

static int recorded_MPI_Waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  auto* const real = COMMLENS_NEXT(PMPI_Waitall);
  return record_ends(
      count, requests, statuses, [&](MPI_Status* seen) { return real(count, requests, seen); },
      [](Session& recording, const Watched& watched, int code) {
        for (std::size_t at = 0; at < watched.count(); ++at) {
          watched.ended(recording, at, at, code);
        }
      });
}
COMMLENS_ENTRY(MPI_Waitall, PMPI_Waitall, (int count, MPI_Request requests[], MPI_Status* statuses),
               (count, requests, statuses))

static int recorded_MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status* statuses) {
  auto* const real = COMMLENS_NEXT(PMPI_Testall);
  return record_ends(
      count, requests, statuses, [&](MPI_Status* seen) { return real(count, requests, flag, seen); },
      [&](Session& recording, const Watched& watched, int code) {
        for (std::size_t at = 0; at < watched.count() && (*flag != 0 || code != MPI_SUCCESS); ++at) {
          watched.ended(recording, at, at, code);
        }
      });
}
COMMLENS_ENTRY(MPI_Testall, PMPI_Testall,
               (int count, MPI_Request requests[], int* flag, MPI_Status* statuses),
               (count, requests, flag, statuses))

static int recorded_MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  auto* const real = COMMLENS_NEXT(PMPI_Waitany);
  return record_one_end(
      count, requests, status, [&](MPI_Status* seen) { return real(count, requests, index, seen); },
      [&](Session& recording, const Watched& watched, int code) {
        if (*index >= 0 && *index < count) {
          watched.ended(recording, static_cast<std::size_t>(*index), 0, code);
        }
      });
}
COMMLENS_ENTRY(MPI_Waitany, PMPI_Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status),
               (count, requests, index, status))

static int recorded_MPI_Testany(int count, MPI_Request requests[], int* index, int* flag,
                                MPI_Status* status) {
  auto* const real = COMMLENS_NEXT(PMPI_Testany);
  return record_one_end(
      count, requests, status, [&](MPI_Status* seen) { return real(count, requests, index, flag, seen); },
      [&](Session& recording, const Watched& watched, int code) {
        if (*flag != 0 && *index >= 0 && *index < count) {
          watched.ended(recording, static_cast<std::size_t>(*index), 0, code);
        }
      });
}
COMMLENS_ENTRY(MPI_Testany, PMPI_Testany,
               (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status),
               (count, requests, index, flag, status))

/// Whether a call that failed has reported what ended; after a bad argument its outputs may be what they
/// were.
static bool says_what_ended(int code) { return code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS; }

static void record_some_ends(Session& recording, const Watched& watched, int code, int ended,
                             const int* indices) {
  const auto count = static_cast<int>(watched.count());
  for (int nth = 0; says_what_ended(code) && ended != MPI_UNDEFINED && nth < std::min(ended, count); ++nth) {
    if (indices[nth] >= 0 && indices[nth] < count) {
      watched.ended(recording, static_cast<std::size_t>(indices[nth]), static_cast<std::size_t>(nth), code);
    }
  }
}

static int recorded_MPI_Waitsome(int count, MPI_Request requests[], int* ended, int* indices,
                                 MPI_Status* statuses) {
  auto* const real = COMMLENS_NEXT(PMPI_Waitsome);
  return record_ends(
      count, requests, statuses,
      [&](MPI_Status* seen) { return real(count, requests, ended, indices, seen); },
      [&](Session& recording, const Watched& watched, int code) {
        record_some_ends(recording, watched, code, *ended, indices);
      });
}
COMMLENS_ENTRY(MPI_Waitsome, PMPI_Waitsome,
               (int count, MPI_Request requests[], int* ended, int* indices, MPI_Status* statuses),
               (count, requests, ended, indices, statuses))

static int recorded_MPI_Testsome(int count, MPI_Request requests[], int* ended, int* indices,
                                 MPI_Status* statuses) {
  auto* const real = COMMLENS_NEXT(PMPI_Testsome);
  return record_ends(
      count, requests, statuses,
      [&](MPI_Status* seen) { return real(count, requests, ended, indices, seen); },
      [&](Session& recording, const Watched& watched, int code) {
        record_some_ends(recording, watched, code, *ended, indices);
      });
}
COMMLENS_ENTRY(MPI_Testsome, PMPI_Testsome,
               (int count, MPI_Request requests[], int* ended, int* indices, MPI_Status* statuses),
               (count, requests, ended, indices, statuses))

static int recorded_MPI_Request_get_status(HandleArgument<MPI_Request> request, int* flag,
                                           MPI_Status* status) {
  auto* const real =
      COMMLENS_NEXT_AS(PMPI_Request_get_status, (HandleArgument<MPI_Request>, int*, MPI_Status*));
  Session* const recording = Session::of_process();
  if (recording == nullptr || is_none(request)) {
    return real(request, flag, status);
  }
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(request, flag, seen);
  if (code == MPI_SUCCESS && *flag != 0) {
    recording->seen_complete(key_of<MPI_Request>(request), *seen);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Request_get_status, PMPI_Request_get_status,
               (HandleArgument<MPI_Request> request, int* flag, MPI_Status* status), (request, flag, status))

static int recorded_MPI_Request_free(MPI_Request* request) {
  auto* const real = COMMLENS_NEXT(PMPI_Request_free);
  Session* const recording = Session::of_process();
  if (recording == nullptr || is_none(*request)) {
    return real(request);
  }
  const std::uint64_t key = key_of(*request);
  const int code = real(request);
  if (code == MPI_SUCCESS) {
    recording->freed(key);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Request_free, PMPI_Request_free, (MPI_Request * request), (request))

static int recorded_MPI_Cancel(MPI_Request* request) {
  auto* const real = COMMLENS_NEXT(PMPI_Cancel);
  if (Session* const recording = Session::of_process(); recording != nullptr && !is_none(*request)) {
    recording->cancelling(key_of(*request));
  }
  return real(request);
}
COMMLENS_ENTRY(MPI_Cancel, PMPI_Cancel, (MPI_Request * request), (request))

static int recorded_MPI_Start(MPI_Request* request) {
  auto* const real = COMMLENS_NEXT(PMPI_Start);
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(request);
  }
  const std::uint64_t key = key_of(*request);
  recording->starting(key);
  const int code = real(request);
  if (code != MPI_SUCCESS) {
    recording->start_failed(key);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Start, PMPI_Start, (MPI_Request * request), (request))

static int recorded_MPI_Startall(int count, MPI_Request requests[]) {
  auto* const real = COMMLENS_NEXT(PMPI_Startall);
  Session* const recording = Session::of_process();
  for (int at = 0; recording != nullptr && at < count; ++at) {
    recording->starting(key_of(requests[at]));
  }
  const int code = real(count, requests);
  for (int at = 0; recording != nullptr && code != MPI_SUCCESS && at < count; ++at) {
    recording->start_failed(key_of(requests[at]));
  }
  return code;
}
COMMLENS_ENTRY(MPI_Startall, PMPI_Startall, (int count, MPI_Request requests[]), (count, requests))

static void record_probed(Session& recording, MPI_Comm comm, MPI_Message message, const MPI_Status& status) {
  if (message != handles().message_of_nobody) {
    recording.add_message(key_of(message), comm, status);
  }
}

static int recorded_MPI_Mprobe(int source, int tag, HandleArgument<MPI_Comm> comm, MPI_Message* message,
                               MPI_Status* status) {
  auto* const real =
      COMMLENS_NEXT_AS(PMPI_Mprobe, (int, int, HandleArgument<MPI_Comm>, MPI_Message*, MPI_Status*));
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(source, tag, comm, message, status);
  }
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(source, tag, comm, message, seen);
  if (code == MPI_SUCCESS) {
    record_probed(*recording, comm, *message, *seen);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Mprobe, PMPI_Mprobe,
               (int source, int tag, HandleArgument<MPI_Comm> comm, MPI_Message* message, MPI_Status* status),
               (source, tag, comm, message, status))

static int recorded_MPI_Improbe(int source, int tag, HandleArgument<MPI_Comm> comm, int* flag,
                                MPI_Message* message, MPI_Status* status) {
  auto* const real =
      COMMLENS_NEXT_AS(PMPI_Improbe, (int, int, HandleArgument<MPI_Comm>, int*, MPI_Message*, MPI_Status*));
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(source, tag, comm, flag, message, status);
  }
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(source, tag, comm, flag, message, seen);
  if (code == MPI_SUCCESS && *flag != 0) {
    record_probed(*recording, comm, *message, *seen);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Improbe, PMPI_Improbe,
               (int source, int tag, HandleArgument<MPI_Comm> comm, int* flag, MPI_Message* message,
                MPI_Status* status),
               (source, tag, comm, flag, message, status))

// A partitioned message is one message of all its partitions.
COMMLENS_WRAP_PERSISTENT(MPI_Psend_init, PMPI_Psend_init,
                         (const void* buffer, int partitions, MPI_Count count,
                          HandleArgument<MPI_Datatype> type, int to, int tag, HandleArgument<MPI_Comm> comm,
                          HandleArgument<MPI_Info> info),
                         (buffer, partitions, count, type, to, tag, comm, info),
                         describe_send(session, out, comm, to, session.amount(partitions* count, type)))
COMMLENS_WRAP_PERSISTENT(MPI_Precv_init, PMPI_Precv_init,
                         (void* buffer, int partitions, MPI_Count count, HandleArgument<MPI_Datatype> type,
                          int source, int tag, HandleArgument<MPI_Comm> comm, HandleArgument<MPI_Info> info),
                         (buffer, partitions, count, type, source, tag, comm, info),
                         describe_partitioned_receive(session, out, comm, source,
                                                      session.amount(partitions* count, type)))
// NOLINTEND(misc-use-anonymous-namespace,readability-function-size)
