#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "commlens/transport/communicator.hpp"

namespace commlens {

/// How the threads of a job work together.
struct ThreadOptions {
  int assistants = 0;  // additional threads that carry out calls while the ranks compute
};

/// Runs `body` in `ranks` threads, each with its communicator of all of them, and returns when all have. When
/// a body throws, the job is aborted, the others' calls throw, and this throws SystemError "rank 2: <its
/// message>" for the rank that failed first.
void run_thread_ranks(std::int64_t ranks,
                      const std::function<void(std::unique_ptr<Communicator> world)>& body,
                      const ThreadOptions& options = {});

}  // namespace commlens
