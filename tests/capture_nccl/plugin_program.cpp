// plugin_program VERSION SCENARIO: calls a profiler plug-in as a job with NCCL would make NCCL do.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "plugin_host.hpp"
#include "ranks.h"

namespace {

using host::Call;
using host::Comm;
using host::Plugin;

/// Long enough for the given GPU times to be after the call.
void spin() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(50)) {
  }
}

/// The program's part of a call, then NCCL's: a group of one, the task, two channels whose ends are reported
/// in the opposite order.
void whole_call(Plugin& plugin, Comm& comm, const Call& call) {
  void* const api = plugin.start_api(comm, call);
  plugin.stop(api);
  void* const group = plugin.start_group(comm);
  void* const task = plugin.start_task(comm, call, api, group);
  plugin.stop(task);
  plugin.stop(group);
  spin();
  void* const first = plugin.start_kernel(comm, task, 0, 1'005'000);
  void* const second = plugin.start_kernel(comm, task, 1, 1'005'500);
  plugin.stop_kernel(second, 1'012'000);  // 7,000 ns after the first start
  plugin.stop_kernel(first, 1'009'000);
}

void world_calls(Plugin& plugin, Comm& world) {
  const int next = (world.rank + 1) % world.size;
  const int before = (world.rank + world.size - 1) % world.size;
  const Call calls[] = {
      {"AllReduce", 1000, "ncclFloat32", 0},   {"AllGather", 16, "ncclFloat32", 0},
      {"ReduceScatter", 8, "ncclBfloat16", 0}, {"Broadcast", 3, "ncclFloat64", world.size - 1},
      {"Reduce", 5, "ncclInt32", 1},           {"AllReduce", 1, "ncclInt8", 0},
      {"AllReduce", 6, "Unknown", 0},          {"Send", 2, "ncclFloat16", next},
      {"Recv", 2, "ncclFloat16", before}};
  for (const Call& call : calls) {
    whole_call(plugin, world, call);
  }
}

/// Two calls in one group; the second ends first, and the first's kernel before its enqueuing is reported.
void out_of_order(Plugin& plugin, Comm& comm) {
  const Call first{"AllReduce", 21, "ncclFloat32"};
  const Call second{"AllReduce", 22, "ncclFloat32"};
  void* const first_api = plugin.start_api(comm, first);
  plugin.stop(first_api);
  void* const second_api = plugin.start_api(comm, second);
  plugin.stop(second_api);
  void* const outer = plugin.start_group(comm);
  void* const inner = plugin.start_group(comm);
  void* const second_task = plugin.start_task(comm, second, second_api, inner);
  void* const first_task = plugin.start_task(comm, first, first_api, outer);
  plugin.stop(second_task);
  spin();
  void* const second_kernel = plugin.start_kernel(comm, second_task, 0, 2'000'000);
  void* const first_kernel = plugin.start_kernel(comm, first_task, 0, 2'000'100);
  plugin.stop_kernel(second_kernel, 2'003'000);
  plugin.stop_kernel(first_kernel, 2'003'100);
  plugin.stop(first_task);
  plugin.stop(second_kernel);  // twice
  plugin.stop(inner);
  plugin.stop(outer);
}

/// A call whose kernel is not reported, one whose kernel never ends, one that NCCL never enqueues.
void lost(Plugin& plugin, Comm& comm) {
  for (const std::size_t count : {31U, 32U}) {
    const Call call{"AllReduce", count, "ncclUint32"};
    void* const api = plugin.start_api(comm, call);
    plugin.stop(api);
    void* const task = plugin.start_task(comm, call, api, plugin.start_group(comm));
    plugin.stop(task);
    if (count == 32) {
      plugin.start_kernel(comm, task, 0, 3'000'000);
    }
  }
  plugin.stop(plugin.start_api(comm, {"AllReduce", 33, "ncclUint32"}));
}

/// Captured once, carried out twice: two calls, and none when it is captured.
void graph(Plugin& plugin, Comm& comm) {
  const Call call{"AllGather", 41, "ncclBfloat16", 0, true};
  void* const api = plugin.start_api(comm, call);
  plugin.stop(api);
  for (int launch = 0; launch < 2; ++launch) {
    void* const task = plugin.start_task(comm, call, api, plugin.start_group(comm));
    plugin.stop(task);
  }
}

/// One group of two communicators. NCCL reports the enqueuing of one all-reduce alone, after the group, as
/// 2.31.2 does where the others are broadcasts and one that it refuses.
void unreported(Plugin& plugin, Comm& world, Comm& half) {
  void* const group = plugin.start_group_api(world);
  plugin.stop(plugin.start_api(world, {"Broadcast", 81, "ncclFloat32", 2}, group));
  plugin.stop(plugin.start_api(half, {"Broadcast", 84, "ncclFloat32", 1}, group));
  plugin.stop(plugin.start_api(world, {"AllReduce", 83, "ncclFloat32"}, group));
  const Call reported{"AllReduce", 82, "ncclFloat32"};
  void* const api = plugin.start_api(world, reported, group);
  plugin.stop(api);
  plugin.stop(group);
  void* const task = plugin.start_task(world, reported, api, nullptr);
  plugin.stop(task);
  spin();
  if (plugin.has_kernels()) {
    plugin.stop_kernel(plugin.start_kernel(world, task, 0, 4'000'000), 4'003'000);
  }
}

/// By copy engines, once with a parent that is another call's.
void copy_engines(Plugin& plugin, Comm& comm) {
  if (plugin.version < 6) {
    return;
  }
  const Call call{"AlltoAll", 51, "ncclFloat32"};
  void* const api = plugin.start_api(comm, call);
  plugin.stop(api);
  plugin.stop(plugin.start_ce(comm, call, api));
  plugin.stop(plugin.start_ce(comm, {"AllGather", 52, "ncclFloat32"}, api));
}

/// More events than are kept, then a kernel event of the first.
void too_late(Plugin& plugin, Comm& comm) {
  const Call call{"AllReduce", 61, "ncclFloat32"};
  void* const first = plugin.start_task(comm, call, nullptr, nullptr);
  plugin.stop(first);
  for (int more = 0; more < 20000; ++more) {
    plugin.stop(plugin.start_task(comm, call, nullptr, nullptr));
  }
  void* const kernel = plugin.start_kernel(comm, first, 0, 1);
  if (kernel != nullptr) {
    std::_Exit(3);
  }
  plugin.stop(first);
}

/// One thread's calls on its communicator; another thread reports the kernels, as NCCL's does.
void many_calls(Plugin& plugin, std::uint64_t id, int rank, int ranks) {
  Comm comm = plugin.join(id, rank, ranks);
  std::vector<void*> tasks;
  for (int call = 0; call < 500; ++call) {
    const Call made{"AllReduce", id == 0xc1 ? 71U : 72U, "ncclFloat32"};
    void* const api = plugin.start_api(comm, made);
    plugin.stop(api);
    tasks.push_back(plugin.start_task(comm, made, api, nullptr));
    plugin.stop(tasks.back());
  }
  std::thread progress([&] {
    for (void* const task : tasks) {
      void* const kernel = plugin.start_kernel(comm, task, 0, 10);
      if (kernel != nullptr) {
        plugin.stop_kernel(kernel, 20);
      }
    }
  });
  progress.join();
  plugin.leave(comm);
}

/// Two threads of the program with a communicator each.
void threads(Plugin& plugin, int rank, int ranks) {
  std::vector<std::thread> all;
  for (const std::uint64_t id : {0xc1U, 0xd1U}) {
    all.emplace_back([&plugin, id, rank, ranks] { many_calls(plugin, id, rank, ranks); });
  }
  for (std::thread& one : all) {
    one.join();
  }
}

void job(Plugin& plugin, int rank, int ranks) {
  Comm world = plugin.join(0xa1, rank, ranks);
  // The ranks of two smaller communicators, in falling order.
  Comm half = plugin.join(0xb0U + static_cast<unsigned>(rank % 2), (ranks - 1 - rank) / 2, ranks / 2);
  world_calls(plugin, world);
  whole_call(plugin, half, {"AllGather", 11, "ncclFloat32"});
  whole_call(plugin, half, {"Send", 12, "ncclInt64", 1 - half.rank});
  out_of_order(plugin, world);
  lost(plugin, world);
  graph(plugin, world);
  copy_engines(plugin, world);
  unreported(plugin, world, half);
  plugin.leave(half);
  plugin.leave(world);
  threads(plugin, rank, ranks);
}

/// Threads whose communicator another one aborts meanwhile. Prints how many calls they made.
void aborts(Plugin& plugin) {
  constexpr int callers = 6;
  constexpr int calls = 3000;
  std::vector<Comm> comms{plugin.join(1, 0, 1)};
  comms.reserve(1 + 300);
  std::atomic<Comm*> current = comms.data();
  std::vector<std::thread> all;
  for (int caller = 0; caller < callers; ++caller) {
    all.emplace_back([&] {
      for (int call = 0; call < calls; ++call) {
        plugin.stop(plugin.start_task(*current.load(), {"AllReduce", 91, "ncclFloat32"}, nullptr, nullptr));
      }
    });
  }
  for (std::uint64_t id = 2; id <= 300; ++id) {
    Comm gone = *current.load();  // a copy: the threads read the other one
    current = &comms.emplace_back(plugin.join(id, 0, 1));
    plugin.leave(gone);
    std::this_thread::yield();
  }
  for (std::thread& one : all) {
    one.join();
  }
  std::printf("%d\n", callers * calls);
}

/// Calls before and after a rank's messages to itself, and on another communicator.
void messages_to_itself(Plugin& plugin) {
  std::vector<Comm> comms;
  for (const std::uint64_t id : {0xf4U, 0xf5U}) {
    comms.push_back(plugin.join(id, 0, 2));
    comms.push_back(plugin.join(id, 1, 2));
  }
  Comm& one = comms.front();
  whole_call(plugin, one, {"AllReduce", 101, "ncclFloat32"});
  whole_call(plugin, one, {"Send", 4, "ncclFloat16", 1});
  whole_call(plugin, one, {"Send", 5, "ncclFloat16", 0});
  whole_call(plugin, one, {"Recv", 5, "ncclFloat16", 0});
  whole_call(plugin, one, {"AllReduce", 102, "ncclFloat32"});
  whole_call(plugin, comms[2], {"AllReduce", 103, "ncclFloat32"});
  for (Comm& comm : comms) {
    plugin.leave(comm);
  }
}

/// Waits until the other end of a pipe is open, too.
void meet_at(const char* path, const char* mode) {
  std::FILE* const end = std::fopen(path, mode);
  if (end == nullptr) {
    std::perror(path);
    std::exit(1);
  }
  std::fclose(end);
}

/// All-reduces of four ranks of which the second never ends: `kernel`; because rank 2 does not call:
/// `absent`; because its kernel does not begin: `behind`. Rank 0 opens the first pipe then, and waits for the
/// second.
void hangs(Plugin& plugin, int rank, const std::string& kind, char** pipes) {
  Comm world = plugin.join(0xa1, rank, 4);
  meet();
  whole_call(plugin, world, {"AllReduce", 1000, "ncclFloat32"});
  if (rank != 2 || kind != "absent") {
    const Call call{"AllReduce", 777, "ncclFloat32"};
    void* const api = plugin.start_api(world, call);
    plugin.stop(api);
    void* const task = plugin.start_task(world, call, api, nullptr);
    plugin.stop(task);
    spin();
    if (rank != 2 || kind != "behind") {
      plugin.start_kernel(world, task, 0, 2'000'000);
    }
  }
  meet();
  if (rank == 0) {
    meet_at(pipes[0], "w");
    meet_at(pipes[1], "r");
  }
}

/// More collectives than are waited for after one whose kernel NCCL has lost. Rank 0 opens the first pipe
/// then, and waits for the second.
void overtakes(Plugin& plugin, char** pipes) {
  Comm comm = plugin.join(0xa1, 0, 2);
  const Call lost{"AllReduce", 31, "ncclFloat32"};
  plugin.stop(plugin.start_task(comm, lost, nullptr, nullptr));
  for (int call = 0; call < 33; ++call) {
    whole_call(plugin, comm, {"AllReduce", 32, "ncclFloat32"});
  }
  meet_at(pipes[0], "w");
  meet_at(pipes[1], "r");
}

/// One process, several GPUs, no launcher.
void several_gpus(Plugin& plugin) {
  constexpr int gpus = 3;
  std::vector<Comm> comms;
  for (int rank = 0; rank < gpus; ++rank) {
    comms.push_back(plugin.join(0xe1, rank, gpus));
  }
  for (Comm& comm : comms) {
    whole_call(plugin, comm, {"AllReduce", static_cast<std::size_t>(100 + comm.rank), "ncclFloat32"});
  }
  for (Comm& comm : comms) {
    plugin.leave(comm);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int version = count > 1 ? std::atoi(arguments[1]) : 6;
  const std::string scenario = count > 2 ? arguments[2] : "job";
  if (scenario == "gpus") {
    several_gpus(*Plugin::open(version));
    return 0;
  }
  if (scenario == "itself") {
    messages_to_itself(*Plugin::open(version));
    return 0;
  }
  if (scenario == "mask") {
    Plugin& plugin = *Plugin::open(version);
    plugin.join(0xa1, 0, 1);
    std::printf("%d\n", plugin.mask);
    return 0;
  }
  if (scenario == "overtakes" && count == 5) {
    overtakes(*Plugin::open(version), arguments + 3);
    return 0;
  }
  if (scenario == "aborts") {
    aborts(*Plugin::open(version));
    return 0;
  }
  const int ranks = scenario == "late" || scenario == "killed" ? 1 : 4;
  const int rank = start_ranks(ranks);
  Plugin& plugin = *Plugin::open(version);
  if (scenario == "late") {
    Comm comm = plugin.join(0xf1, 0, 1);
    too_late(plugin, comm);
  } else if (scenario == "killed") {
    Comm comm = plugin.join(0xf2, 0, 1);
    whole_call(plugin, comm, {"AllReduce", 81, "ncclFloat32"});
    std::abort();
  } else if (scenario == "hangs" && count == 6) {
    hangs(plugin, rank, arguments[3], arguments + 4);
  } else {
    job(plugin, rank, ranks);
  }
  meet();  // by now all ranks have reported their rank
  std::exit(0);
}
