#include "commlens/transport/call_board.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "commlens/base/descriptor.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_head_bytes = 4096;  // keeps the flag apart from the entries

std::size_t board_bytes(std::int64_t ranks) {
  return k_head_bytes + static_cast<std::size_t>(ranks) * sizeof(RankEntry);
}

/// Maps zeroed memory; null where the system refuses. `file` -1: of this process alone.
std::shared_ptr<void> mapped(int file, std::size_t bytes) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  return {memory, [bytes](void* start) { munmap(start, bytes); }};
}

std::shared_ptr<void> own_memory(std::int64_t ranks) {
  std::shared_ptr<void> memory = mapped(-1, board_bytes(ranks));
  if (memory == nullptr) {
    throw SystemError(fmt::format("cannot get memory to watch over calls: {}", std::strerror(errno)));
  }
  return memory;
}

/// Sent by each rank to the others, to find those of its machine.
struct Place {
  std::uint64_t machine = 0;  // a hash of the machine's boot
  std::int64_t process = 0;
  std::int64_t moment = 0;  // so that the name is new
};

std::vector<Place> places_of(Communicator& world) {
  const Place own{std::hash<std::string>()(boot_id()), getpid(), Clock::of_process().now_ns()};
  std::vector<Place> places(static_cast<std::size_t>(world.size()));
  const Elements bytes{sizeof(Place)};
  world.run({.kind = CommKind::all_gather,
             .dtype = DType::uint8,
             .input_buffer = &own,
             .output_buffer = places.data(),
             .input = bytes,
             .output = {bytes.value * world.size()},
             .tag = "machines"});
  return places;
}

/// Shared memory of the machine as a file.
Descriptor shared_file(const std::string& name, int flags) {
  return Descriptor(shm_open(name.c_str(), flags, S_IRUSR | S_IWUSR));
}

}  // namespace

void GroupCalls::add(std::int64_t now_ns) {
  const std::int64_t number = made.load(std::memory_order_relaxed);
  issued_ns[static_cast<std::size_t>(number % k_remembered)].store(now_ns, std::memory_order_relaxed);
  made.store(number + 1, std::memory_order_release);
}

std::optional<std::int64_t> GroupCalls::issue_of(std::int64_t number) const {
  const std::int64_t before = made.load(std::memory_order_acquire);
  const std::int64_t time =
      issued_ns[static_cast<std::size_t>(number % k_remembered)].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::int64_t after = made.load(std::memory_order_relaxed);
  // The rank may be writing the call after the last one it has made.
  return number < before && after - number < k_remembered ? std::optional(time) : std::nullopt;
}

const GroupCalls* RankEntry::find(std::uint64_t key) const {
  for (std::size_t i = 0; i < k_groups; ++i) {
    const GroupCalls& group = groups_[(key + i) % k_groups];
    const std::uint64_t found = group.key.load(std::memory_order_acquire);
    if (found == key) {
      return &group;
    }
    if (found == 0) {
      return nullptr;
    }
  }
  return nullptr;
}

GroupCalls* RankEntry::find_or_add(std::uint64_t key) {
  for (std::size_t i = 0; i < k_groups; ++i) {
    GroupCalls& group = groups_[(key + i) % k_groups];
    const std::uint64_t found = group.key.load(std::memory_order_relaxed);
    if (found == 0) {
      group.key.store(key, std::memory_order_release);
    }
    if (found == 0 || found == key) {
      return &group;
    }
  }
  return nullptr;
}

// The time is 0 while the words change, and distinct for each call: a reader that sees the same time before
// and after has read the words of one call.

void RankEntry::wait_for(const WaitedCall& call, std::int64_t now_ns) {
  const auto words = std::bit_cast<std::array<std::uint64_t, k_words>>(call);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < k_words; ++i) {
    call_[i].store(words[i], std::memory_order_relaxed);
  }
  waits_from_ns_.store(now_ns, std::memory_order_release);
}

std::optional<RankEntry::Waiting> RankEntry::waiting() const {
  const std::int64_t before = waits_from_ns_.load(std::memory_order_acquire);
  if (before == 0) {
    return std::nullopt;
  }
  std::array<std::uint64_t, k_words> words{};
  for (std::size_t i = 0; i < k_words; ++i) {
    words[i] = call_[i].load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (waits_from_ns_.load(std::memory_order_relaxed) != before) {
    return std::nullopt;
  }
  Waiting waiting{std::bit_cast<WaitedCall>(words), before};
  waiting.call.tag.back() = '\0';
  return waiting;
}

CallBoard::CallBoard(std::shared_ptr<void> memory, std::int64_t ranks)
    : memory_(std::move(memory)), ranks_(ranks) {
  // Zeroed memory equals constructed objects; no constructor runs, because another process may already use
  // it.
  end_claimed_ = static_cast<std::atomic<std::int64_t>*>(memory_.get());
  entries_ = reinterpret_cast<RankEntry*>(static_cast<std::byte*>(memory_.get()) + k_head_bytes);
}

CallBoard CallBoard::of_threads(std::int64_t ranks) {
  CallBoard board(own_memory(ranks), ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    board.entry(rank).join();
  }
  return board;
}

CallBoard CallBoard::of_processes(Communicator& world) {
  const std::vector<Place> places = places_of(world);
  const auto self = static_cast<std::size_t>(world.rank().value);
  std::size_t first = 0;  // rank of this machine
  while (places[first].machine != places[self].machine) {
    ++first;
  }
  const std::string name = fmt::format("/commlens-{}-{}", places[first].process, places[first].moment);
  const std::size_t bytes = board_bytes(world.size());
  std::shared_ptr<void> memory;
  if (first == self) {
    const Descriptor file = shared_file(name, O_RDWR | O_CREAT | O_EXCL);
    if (file.number() >= 0 && posix_fallocate(file.number(), 0, static_cast<off_t>(bytes)) == 0) {
      memory = mapped(file.number(), bytes);
    }
  }
  world.barrier();  // the file exists
  if (first != self) {
    const Descriptor file = shared_file(name, O_RDWR);
    memory = file.number() < 0 ? nullptr : mapped(file.number(), bytes);
  }
  CallBoard board(memory == nullptr ? own_memory(world.size()) : memory, world.size());
  board.entry(world.rank().value).join();
  world.barrier();  // all have mapped it
  if (first == self) {
    shm_unlink(name.c_str());
  }
  return board;
}

}  // namespace commlens
