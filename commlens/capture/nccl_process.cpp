#include "commlens/capture/nccl_process.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "commlens/capture/environment.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::capture {
namespace {

/// Threads of NCCL may still look at the recording when the process ends, so it is never given back.
std::atomic<NcclProcess*>& current() {
  static std::atomic<NcclProcess*> only = nullptr;
  return only;
}

void say(const std::string& text) {
  const std::string line = "commlens: " + text + "\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

NcclProcess::NcclProcess(std::string directory, LaunchedAs launched)
    : asked_(std::move(directory)), launched_(std::move(launched)) {}

NcclProcess* NcclProcess::of_process() noexcept {
  constexpr void (*let_go_in_child)() = [] {
    if (NcclProcess* const process = current().exchange(nullptr); process != nullptr && process->directory_) {
      process->directory_->let_go();
    }
  };
  static const bool is_made = [] {
    const char* const asked = std::getenv(k_directory_variable);
    if (asked == nullptr || *asked == '\0') {
      return false;
    }
    try {
      current().store(new NcclProcess(std::filesystem::absolute(asked).string(), launched_as()));
      pthread_atfork(nullptr, nullptr, let_go_in_child);
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }();
  return is_made ? current().load(std::memory_order_acquire) : nullptr;
}

void NcclProcess::close() noexcept {
  if (NcclProcess* const process = current().exchange(nullptr); process != nullptr) {
    process->close_all();
  }
}

void NcclProcess::stop() noexcept {
  if (NcclProcess* const process = current().load(); process != nullptr) {
    process->is_stopped_.store(true);
  }
}

/// The first rank's file says what this process has lost.
void NcclProcess::count_into_files() {
  NcclStream* const first = streams_.front().load();
  if (first == nullptr) {
    return;
  }
  const NcclStream::Turn turn(*first);
  if (const std::int64_t lost = lost_.load(); lost > 0) {
    first->recorder().skip(std::string(k_skipped_no_memory), lost);
  }
  if (const std::int64_t lost = lost_of_comms_.load(); lost > 0) {
    first->recorder().skip("call of a communicator that is not recorded", lost);
  }
}

void NcclProcess::close_all() noexcept {
  const std::lock_guard guard(mutex_);
  try {
    count_into_files();
  } catch (const std::exception&) {
    is_stopped_ = true;  // it is reported below
  }
  std::int64_t dropped = lost_.load() + lost_of_comms_.load();
  for (const std::atomic<NcclStream*>& stream : streams_) {
    if (NcclStream* const open = stream.load(); open != nullptr) {
      open->close(job_ranks_);
      dropped += open->recorder().dropped();
    }
  }
  try {
    if (!trouble_.empty()) {
      say((devices_.empty() ? "nothing was recorded: " : "not all was recorded: ") + trouble_);
    }
    if (dropped > 0) {
      say(fmt::format("{} calls were not recorded (commlens summary says why)", dropped));
    }
  } catch (const std::exception&) {
    return;
  }
}

bool NcclProcess::is_member(const NcclStream& stream, std::uint64_t comm) const {
  return std::any_of(comms_.begin(), comms_.end(), [&](const std::shared_ptr<NcclComm>& known) {
    return &known->stream() == &stream && known->identity().comm == comm;
  });
}

NcclStream* NcclProcess::open_stream(Rank rank, const CommIdentity& identity) {
  if (devices_.size() == k_most_streams) {
    trouble_ = fmt::format("more than {} ranks in one process", k_most_streams);
    return nullptr;
  }
  if (!directory_) {
    directory_.emplace(asked_, launched_, rank, job_ranks_);  // which claims the rank
  } else if (!directory_->claim(rank)) {
    trouble_ = fmt::format("rank {} of the job is recorded by two processes or communicators", rank.value);
    return nullptr;
  }
  job_ranks_ = std::max(job_ranks_, rank.value + 1);
  directory_->need_ranks(job_ranks_);
  const std::size_t index = devices_.size();
  auto* const stream = new NcclStream(directory_->path(), rank, static_cast<std::uint32_t>(index));
  stream->recorder().set_iteration(iteration_);
  stream->recorder().set_phase(position_.phase, position_.micro_batch);
  devices_.push_back(identity.device);
  streams_.at(index).store(stream, std::memory_order_release);
  return stream;
}

/// The rank of the job that a member of a communicator is. The launcher's number, where it starts a process
/// for each rank. Otherwise (one process drives several GPUs) the first communicator numbers the ranks, and
/// the device identifies which of them a member of a later one is.
NcclStream* NcclProcess::stream_of(const CommIdentity& identity) {
  if (devices_.empty()) {
    const int known_size = std::max(identity.size, identity.rank + 1);
    is_one_rank_ = launched_.ranks >= known_size;
    job_ranks_ = std::max<std::int64_t>(launched_.ranks, known_size);
    return open_stream(is_one_rank_ ? Rank{launched_.rank} : Rank{identity.rank}, identity);
  }
  for (std::size_t index = 0; index < devices_.size(); ++index) {
    NcclStream* const open = streams_.at(index).load();
    if (is_member(*open, identity.comm)) {
      continue;
    }
    if (is_one_rank_ || (devices_[index] == identity.device && identity.device >= 0) ||
        (identity.device < 0 && devices_.size() > 1 && open->self().value == identity.rank) ||
        (identity.device < 0 && devices_.size() == 1)) {
      return open;
    }
  }
  if (is_one_rank_) {
    trouble_ = "several GPUs in one process, though the launcher counts processes";
    return nullptr;
  }
  if (identity.size > job_ranks_) {
    job_ranks_ = identity.size;
  }
  return open_stream(Rank{identity.rank}, identity);
}

std::shared_ptr<NcclComm> NcclProcess::join(const CommIdentity& identity) noexcept {
  const std::lock_guard guard(mutex_);
  if (is_broken_ || identity.rank < 0 || (identity.size > 0 && identity.rank >= identity.size)) {
    return nullptr;
  }
  try {
    NcclStream* const stream = stream_of(identity);
    if (stream == nullptr) {
      return nullptr;
    }
    comms_.push_back(std::make_shared<NcclComm>(*stream, identity, job_ranks_));
    return comms_.back();
  } catch (const std::exception& error) {
    is_broken_ = true;
    trouble_ = error.what();
    return nullptr;
  }
}

void NcclProcess::leave(const std::shared_ptr<NcclComm>& comm) noexcept {
  const std::lock_guard guard(mutex_);
  if (const auto found = std::find(comms_.begin(), comms_.end(), comm); found != comms_.end()) {
    comms_.erase(found);
  }
}

void NcclProcess::mark_streams() noexcept {
  for (const std::atomic<NcclStream*>& stream : streams_) {
    if (NcclStream* const open = stream.load(std::memory_order_acquire); open != nullptr) {
      const NcclStream::Turn turn(*open);
      open->recorder().set_iteration(iteration_);
      open->recorder().set_phase(position_.phase, position_.micro_batch);
    }
  }
}

void NcclProcess::set_iteration(std::int32_t iteration) noexcept {
  const std::lock_guard guard(mutex_);
  iteration_ = iteration;
  mark_streams();
}

void NcclProcess::set_phase(Phase phase) noexcept {
  const std::lock_guard guard(mutex_);
  position_.phase = phase;
  mark_streams();
}

void NcclProcess::set_micro_batch(std::int32_t micro_batch) noexcept {
  const std::lock_guard guard(mutex_);
  position_.micro_batch = micro_batch;
  mark_streams();
}

void NcclProcess::announce_pause(double seconds) noexcept {
  const std::lock_guard guard(mutex_);
  try {
    for (const std::atomic<NcclStream*>& stream : streams_) {
      if (NcclStream* const open = stream.load(std::memory_order_acquire); open != nullptr) {
        const NcclStream::Turn turn(*open);
        open->recorder().announce_pause(seconds);
      }
    }
  } catch (const std::bad_alloc&) {
    stop();
  }
}

}  // namespace commlens::capture

namespace {

/// The library is never unloaded (-z nodelete), so this runs when the process ends; after destructors
/// without a number.
__attribute__((destructor(101))) void close_when_the_process_ends() {
  commlens::capture::NcclProcess::close();
}

}  // namespace
