// The conformance list over an NCCL whose ranks are threads and whose device is the host.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/transport/comm_threads.hpp"
#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/nccl_api.hpp"
#include "commlens/transport/nccl_world.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

/// The groups that ranks are about to join, by their unique id.
class HostNcclGroups {
 public:
  std::unique_ptr<Communicator> join(std::int64_t id, int ranks, int rank) {
    const std::lock_guard lock(mutex_);
    Group& group = groups_[id];
    if (group.threads == nullptr) {
      std::vector<Rank> members;
      for (std::int64_t member = 0; member < ranks; ++member) {
        members.push_back(Rank{member});
      }
      group.threads = std::make_shared<ThreadGroup>(std::make_shared<ThreadJob>(ranks), std::move(members));
    }
    auto communicator = thread_communicator(group.threads, GroupRank{rank});
    if (++group.joined == ranks) {
      groups_.erase(id);
    }
    return communicator;
  }

 private:
  struct Group {
    std::shared_ptr<ThreadGroup> threads;
    int joined = 0;
  };
  std::mutex mutex_;
  std::map<std::int64_t, Group> groups_;
};

HostNcclGroups& host_nccl_groups() {
  static HostNcclGroups groups;
  return groups;
}

/// The calls between ncclGroupStart and ncclGroupEnd of a thread.
struct OpenGroup {
  int depth = 0;
  Communicator* communicator = nullptr;
  std::vector<CommCall> calls;
};

OpenGroup& open_group() {
  static thread_local OpenGroup group;
  return group;
}

DType dtype_of(NcclType type) {
  switch (type) {
    case NcclType::int8:
      return DType::int8;
    case NcclType::uint8:
      return DType::uint8;
    case NcclType::int32:
      return DType::int32;
    case NcclType::int64:
      return DType::int64;
    case NcclType::fp16:
      return DType::fp16;
    case NcclType::fp32:
      return DType::fp32;
    case NcclType::fp64:
      return DType::fp64;
    case NcclType::bf16:
      return DType::bf16;
  }
  return DType::uint8;
}

ReduceOp reduction_of(NcclReduction op) {
  if (op == NcclReduction::avg) {
    return ReduceOp::avg;
  }
  return op == NcclReduction::max ? ReduceOp::max : ReduceOp::sum;
}

Elements elements(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

int made(NcclComm comm, const CommCall& call) {
  auto* const communicator = static_cast<Communicator*>(comm);
  if (open_group().depth == 0) {
    communicator->run(call);
  } else {
    open_group().communicator = communicator;
    open_group().calls.push_back(call);
  }
  return k_nccl_success;
}

/// NCCL lets a rank send to itself, in a group that receives it too; threads do not.
void copy_messages_to_self(std::vector<CommCall>& calls, GroupRank self) {
  const auto is_own = [&](CommKind kind) {
    return [=](const CommCall& call) { return call.kind == kind && call.peer == self; };
  };
  while (true) {
    const auto send = std::find_if(calls.begin(), calls.end(), is_own(CommKind::send));
    if (send == calls.end()) {
      return;
    }
    const auto recv = std::find_if(calls.begin(), calls.end(), is_own(CommKind::recv));
    ASSERT_TRUE(recv != calls.end() && recv->output == send->input && recv->dtype == send->dtype);
    if (send->input.value > 0) {
      std::memcpy(recv->output_buffer, send->input_buffer,
                  static_cast<std::size_t>((send->input * send->dtype).value));
    }
    const CommCall* const first = &*send;
    const CommCall* const second = &*recv;
    std::vector<CommCall> others;
    for (const CommCall& call : calls) {
      if (&call != first && &call != second) {
        others.push_back(call);
      }
    }
    calls = std::move(others);
  }
}

int group_ended() {
  OpenGroup& group = open_group();
  EXPECT_GT(group.depth, 0);
  if (--group.depth == 0 && !group.calls.empty()) {
    std::vector<CommCall> calls = std::exchange(group.calls, {});
    copy_messages_to_self(calls, group.communicator->rank());
    group.communicator->start_group(calls)->wait();
  }
  return k_nccl_success;
}

void load_host_device(NcclApi& api) {
  api.set_device = [](int) { return k_gpu_success; };
  api.gpu_error_string = [](int) { return "a failure of the device"; };
  api.allocate = [](void** memory, std::size_t bytes) {
    *memory = std::calloc(1, bytes);
    return k_gpu_success;
  };
  api.free = [](void* memory) {
    std::free(memory);
    return k_gpu_success;
  };
  api.stream_create = [](NcclStream*, unsigned) { return k_gpu_success; };
  api.stream_destroy = [](NcclStream) { return k_gpu_success; };
  api.stream_wait_event = [](NcclStream, NcclEvent, unsigned) { return k_gpu_success; };
  api.event_create = [](NcclEvent*, unsigned) { return k_gpu_success; };
  api.event_destroy = [](NcclEvent) { return k_gpu_success; };
  api.event_record = [](NcclEvent, NcclStream) { return k_gpu_success; };
  api.event_query = [](NcclEvent) { return k_gpu_success; };
}

void load_communicators(NcclApi& api) {
  api.get_unique_id = [](NcclUniqueId* id) {
    static std::atomic<std::int64_t> count = 0;
    const std::int64_t number = ++count;
    std::memcpy(id->bytes.data(), &number, sizeof number);
    return k_nccl_success;
  };
  api.comm_init_rank = [](NcclComm* comm, int ranks, NcclUniqueId id, int rank) {
    std::int64_t number = 0;
    std::memcpy(&number, id.bytes.data(), sizeof number);
    *comm = host_nccl_groups().join(number, ranks, rank).release();
    return k_nccl_success;
  };
  api.comm_destroy = [](NcclComm comm) {
    delete static_cast<Communicator*>(comm);
    return k_nccl_success;
  };
  api.comm_abort = [](NcclComm comm) {
    static_cast<Communicator*>(comm)->abort("aborted");
    return k_nccl_success;
  };
  api.comm_get_async_error = [](NcclComm, int* error) { return *error = k_nccl_success; };
  api.get_error_string = [](int) { return "a failure"; };
  api.group_start = [] { return ++open_group().depth, k_nccl_success; };
  api.group_end = &group_ended;
}

void load_reductions(NcclApi& api) {
  api.all_reduce = [](const void* from, void* to, std::size_t count, NcclType type, NcclReduction op,
                      NcclComm comm, NcclStream) {
    return made(comm, {.kind = CommKind::all_reduce,
                       .dtype = dtype_of(type),
                       .reduction = reduction_of(op),
                       .input_buffer = from,
                       .output_buffer = to,
                       .input = elements(count),
                       .output = elements(count)});
  };
  api.reduce_scatter = [](const void* from, void* to, std::size_t received, NcclType type, NcclReduction op,
                          NcclComm comm, NcclStream) {
    const auto ranks = static_cast<std::size_t>(static_cast<Communicator*>(comm)->size());
    return made(comm, {.kind = CommKind::reduce_scatter,
                       .dtype = dtype_of(type),
                       .reduction = reduction_of(op),
                       .input_buffer = from,
                       .output_buffer = to,
                       .input = elements(received * ranks),
                       .output = elements(received)});
  };
  api.reduce = [](const void* from, void* to, std::size_t count, NcclType type, NcclReduction op, int root,
                  NcclComm comm, NcclStream) {
    return made(comm, {.kind = CommKind::reduce,
                       .dtype = dtype_of(type),
                       .reduction = reduction_of(op),
                       .input_buffer = from,
                       .output_buffer = to,
                       .input = elements(count),
                       .output = elements(count),
                       .peer = GroupRank{root}});
  };
}

void load_moves(NcclApi& api) {
  api.all_gather = [](const void* from, void* to, std::size_t sent, NcclType type, NcclComm comm,
                      NcclStream) {
    const auto ranks = static_cast<std::size_t>(static_cast<Communicator*>(comm)->size());
    return made(comm, {.kind = CommKind::all_gather,
                       .dtype = dtype_of(type),
                       .input_buffer = from,
                       .output_buffer = to,
                       .input = elements(sent),
                       .output = elements(sent * ranks)});
  };
  api.broadcast = [](const void* from, void* to, std::size_t count, NcclType type, int root, NcclComm comm,
                     NcclStream) {
    return made(comm, {.kind = CommKind::broadcast,
                       .dtype = dtype_of(type),
                       .input_buffer = from,
                       .output_buffer = to,
                       .input = elements(count),
                       .output = elements(count),
                       .peer = GroupRank{root}});
  };
  api.send = [](const void* from, std::size_t count, NcclType type, int peer, NcclComm comm, NcclStream) {
    return made(comm, {.kind = CommKind::send,
                       .dtype = dtype_of(type),
                       .input_buffer = from,
                       .input = elements(count),
                       .peer = GroupRank{peer}});
  };
  api.recv = [](void* to, std::size_t count, NcclType type, int peer, NcclComm comm, NcclStream) {
    return made(comm, {.kind = CommKind::recv,
                       .dtype = dtype_of(type),
                       .output_buffer = to,
                       .output = elements(count),
                       .peer = GroupRank{peer}});
  };
}

NcclApi host_nccl() {
  NcclApi api;
  api.name = "NCCL of the host";
  api.version = 22703;
  load_host_device(api);
  load_communicators(api);
  load_reductions(api);
  load_moves(api);
  return api;
}

class HostNcclConformance : public testing::TestWithParam<conformance::Case> {};

TEST_P(HostNcclConformance, HoldsForGroupsOfOneToFourRanks) {
  const NcclApi api = host_nccl();
  for (const std::int64_t ranks : {1, 2, 4}) {
    if (ranks < GetParam().ranks) {
      continue;
    }
    SCOPED_TRACE(ranks);
    run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> control) {
      conformance::Target target;
      std::erase(target.combined, DType::int16);
      GetParam().check(*nccl_communicator(api, *control, 0), target);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, HostNcclConformance, testing::ValuesIn(conformance::k_cases),
                         [](const auto& one) { return std::string(one.param.name); });

/// The error of one call of a job of one rank.
std::string failure_over(const NcclApi& api, const CommCall& call) {
  std::string failure;
  run_thread_ranks(1, [&](std::unique_ptr<Communicator> control) {
    const std::unique_ptr<Communicator> world = nccl_communicator(api, *control, 0);
    try {
      world->run(call);
    } catch (const SystemError& error) {
      failure = error.what();
    }
  });
  return failure;
}

TEST(NcclCalls, AveragesNeedVersion2_10) {
  NcclApi api = host_nccl();
  api.name = "NCCL 2.9.9";
  api.version = 20909;
  float number = 3;
  const CommCall call{.kind = CommKind::all_reduce,
                      .dtype = DType::fp32,
                      .reduction = ReduceOp::avg,
                      .input_buffer = &number,
                      .output_buffer = &number,
                      .input = {1},
                      .output = {1}};
  EXPECT_EQ(failure_over(api, call),
            "all_reduce of 1 fp32 (avg): NCCL 2.9.9 has no averages; version 2.10 or later is needed");
  api.version = 21003;
  EXPECT_EQ(failure_over(api, call), "");
}

TEST(NcclCalls, AnInvalidCallOfAGroupIsRefusedBeforeTheGroupIsOpen) {
  const NcclApi api = host_nccl();
  run_thread_ranks(1, [&](std::unique_ptr<Communicator> control) {
    const std::unique_ptr<Communicator> world = nccl_communicator(api, *control, 0);
    const std::array calls{CommCall{.kind = CommKind::barrier},
                           CommCall{.kind = CommKind::all_reduce, .input = {1}, .output = {2}}};
    EXPECT_THROW(world->start_group(calls), SystemError);
    EXPECT_EQ(open_group().depth, 0);
    world->barrier();
  });
}

}  // namespace
}  // namespace commlens
