#pragma once
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

// NCCL's side of the profiler interface, written down a second time, apart from commlens/capture: whole
// descriptions, in the order of the headers (src/include/plugin/profiler/profiler_vN.h of
// NCCL 2.23.4, 2.24.3, 2.26.2, 2.27.3, 2.28.3 and 2.29.2), so that a layout that is wrong on one side shows.
// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's
namespace abi {

#define ABI_PROXY                        \
  struct {                               \
    pid_t pid;                           \
    std::uint8_t channelId;              \
    int peer, nSteps, chunkSize, isSend; \
  } proxyOp;                             \
  struct {                               \
    int step;                            \
  } proxyStep;
#define ABI_NET      \
  struct {           \
    std::int64_t id; \
    void* data;      \
  } netPlugin;
#define ABI_HEAD(TYPE) \
  TYPE type;           \
  void* parentObj;     \
  int rank;

struct Event1 {
  ABI_HEAD(std::uint8_t)
  union {
    struct {
      const char* name;
      std::uint64_t commHash, seqNumber;
      std::uint8_t func;
      const void* sendBuff;
      void* recvBuff;
      std::size_t count;
      int root;
      std::uint8_t datatype;
      std::uint32_t op;
      std::size_t trafficBytes;
      std::uint8_t nMaxChannels, nWarps, algo, proto;
      int isCollnet, isNvls;
    } coll;
    struct {
      const char* name;
      std::uint64_t commHash;
      std::uint8_t func;
      void* buff;
      std::uint8_t datatype;
      std::size_t count;
      int peer;
    } p2p;
    ABI_PROXY
  };
};
struct Event2 {
  ABI_HEAD(std::uint8_t)
  union {
    struct {
      const char* name;
      std::uint64_t commHash, seqNumber;
      const char* func;
      const void* sendBuff;
      void* recvBuff;
      std::size_t count;
      int root;
      const char* datatype;
      std::size_t trafficBytes;
      std::uint8_t nMaxChannels, nWarps;
      const char *algo, *proto;
    } coll;
    struct {
      const char* name;
      std::uint64_t commHash;
      const char* func;
      void* buff;
      const char* datatype;
      std::size_t count;
      int peer;
    } p2p;
    ABI_PROXY
  };
};
struct Event3 {
  ABI_HEAD(std::uint8_t)
  union {
    struct {
      const char* name;
      std::uint64_t commHash, seqNumber;
      const char* func;
      const void* sendBuff;
      void* recvBuff;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t nMaxChannels, nWarps;
      const char *algo, *proto;
    } coll;
    struct {
      const char* name;
      std::uint64_t commHash;
      const char* func;
      void* buff;
      const char* datatype;
      std::size_t count;
      int peer;
    } p2p;
    ABI_PROXY
    struct {
      std::uint8_t channelId;
    } kernelCh;
    ABI_NET
  };
};
struct Event4 {
  ABI_HEAD(std::uint8_t)
  union {
    struct {
      std::uint64_t seqNumber;
      const char* func;
      const void* sendBuff;
      void* recvBuff;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t nChannels, nWarps;
      const char *algo, *proto;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      std::size_t count;
      int peer;
      std::uint8_t nChannels;
    } p2p;
    ABI_PROXY
    struct {
      std::uint8_t channelId;
      std::uint64_t pTimer;
    } kernelCh;
    ABI_NET
  };
};
#define ABI_SINCE_5                 \
  struct {                          \
    bool graphCaptured;             \
    int groupDepth;                 \
  } groupApi;                       \
  struct {                          \
    const char* func;               \
    std::size_t count;              \
    const char* datatype;           \
    int root;                       \
    void* stream;                   \
    bool graphCaptured;             \
  } collApi;                        \
  struct {                          \
    const char* func;               \
    std::size_t count;              \
    const char* datatype;           \
    void* stream;                   \
    bool graphCaptured;             \
  } p2pApi;                         \
  struct {                          \
    void* stream;                   \
  } kernelLaunch;                   \
  struct {                          \
    std::uint64_t seqNumber;        \
    const char* func;               \
    const void* sendBuff;           \
    void* recvBuff;                 \
    std::size_t count;              \
    int root;                       \
    const char* datatype;           \
    std::uint8_t nChannels, nWarps; \
    const char *algo, *proto;       \
    void* parentGroup;              \
  } coll;                           \
  struct {                          \
    const char* func;               \
    void* buff;                     \
    const char* datatype;           \
    std::size_t count;              \
    int peer;                       \
    std::uint8_t nChannels;         \
    void* parentGroup;              \
  } p2p;                            \
  ABI_PROXY                         \
  struct {                          \
    std::uint8_t channelId;         \
    std::uint64_t pTimer;           \
  } kernelCh;                       \
  ABI_NET
struct Event5 {
  ABI_HEAD(std::uint64_t)
  union {
    ABI_SINCE_5
  };
};
struct Event6 {
  ABI_HEAD(std::uint64_t)
  union {
    ABI_SINCE_5
    struct {
      std::uint64_t seqNumber;
      const char* func;
      const void* sendBuff;
      void* recvBuff;
      std::size_t count;
      int root;
      const char *datatype, *syncStrategy;
      bool intraBatchSync;
      std::uint32_t batchSize, numBatches, ceSeqNum;
      void* stream;
    } ceColl;
    struct {
      bool isComplete;
      int nRanks;
    } ceCollSync;
    struct {
      int numOps;
      std::size_t totalBytes;
      bool useIntraSync;
    } ceCollBatch;
  };
};

union StateOld {  // v1 to v3
  struct {
    std::size_t transSize;
    int steps;
  } proxyOp;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
};
union StateNew {
  struct {
    std::size_t transSize;
  } proxyStep;
  struct {
    int appendedProxyOps;
  } proxyCtrl;
  struct {
    void* data;
  } netPlugin;
  struct {
    std::uint64_t pTimer;
  } kernelCh;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

template <typename Init, typename Event, typename State>
struct Table {
  const char* name;
  Init init;
  int (*startEvent)(void* context, void** handle, Event* description);
  int (*stopEvent)(void* handle);
  int (*recordEventState)(void* handle, int state, State* arguments);
  int (*finalize)(void* context);
};
using InitOld = int (*)(void** context, int* mask);
using Init4 = int (*)(void** context, int* mask, const char* commName, std::uint64_t commHash, int nNodes,
                      int nranks, int rank, Logger logfn);
using Init5 = int (*)(void** context, std::uint64_t commId, int* mask, const char* commName, int nNodes,
                      int nranks, int rank, Logger logfn);

enum Type {
  group = 1,
  coll = 2,
  p2p = 4,
  proxyOp = 8,
  kernelCh = 64,
  groupApi = 256,
  collApi = 512,
  p2pApi = 1024,
  ceColl = 4096
};
constexpr int kernelChStop = 22;

}  // namespace abi
// NOLINTEND(readability-identifier-naming)
