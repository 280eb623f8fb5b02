#include "commlens/transport/nccl_api.hpp"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::array k_nccl_files{"libnccl.so.2"};
constexpr std::array k_cuda_files{"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
constexpr std::array k_rccl_files{"librccl.so.1", "librccl.so"};
constexpr std::array k_hip_files{"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5"};
constexpr std::array k_vendors{GpuVendor{"NCCL", k_nccl_files, k_cuda_files, "cuda"},
                               GpuVendor{"RCCL", k_rccl_files, k_hip_files, "hip"}};

/// The first of `files` that is loaded already, else that can be: LibTorch brings its own run time.
Result<void*> opened(std::span<const char* const> files) {
  for (const int mode : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW}) {
    for (const char* file : files) {
      if (void* library = dlopen(file, mode); library != nullptr) {
        return library;
      }
    }
  }
  dlopen(files.front(), RTLD_NOW);
  return failure(dlerror());
}

/// Fills the entries of a table from one library, and stores the first missing function.
class Loader {
 public:
  Loader(void* library, std::string_view prefix, std::string& missing)
      : library_(library), prefix_(prefix), missing_(missing) {}

  template <typename Function>
  void load(Function*& entry, std::string_view name) {
    const std::string symbol = std::string(prefix_) + std::string(name);
    entry = reinterpret_cast<Function*>(dlsym(library_, symbol.c_str()));
    if (entry == nullptr && missing_.empty()) {
      missing_ = symbol;
    }
  }

 private:
  void* library_;
  std::string_view prefix_;
  std::string& missing_;
};

void load_collectives(Loader library, NcclApi& api) {
  library.load(api.get_unique_id, "GetUniqueId");
  library.load(api.comm_init_rank, "CommInitRank");
  library.load(api.comm_destroy, "CommDestroy");
  library.load(api.comm_abort, "CommAbort");
  library.load(api.comm_get_async_error, "CommGetAsyncError");
  library.load(api.get_error_string, "GetErrorString");
  library.load(api.all_reduce, "AllReduce");
  library.load(api.reduce_scatter, "ReduceScatter");
  library.load(api.reduce, "Reduce");
  library.load(api.all_gather, "AllGather");
  library.load(api.broadcast, "Broadcast");
  library.load(api.send, "Send");
  library.load(api.recv, "Recv");
  library.load(api.group_start, "GroupStart");
  library.load(api.group_end, "GroupEnd");
}

void load_runtime(Loader library, NcclApi& api) {
  library.load(api.set_device, "SetDevice");
  library.load(api.get_device_count, "GetDeviceCount");
  library.load(api.gpu_error_string, "GetErrorString");
  library.load(api.allocate, "Malloc");
  library.load(api.free, "Free");
  library.load(api.stream_create, "StreamCreateWithFlags");
  library.load(api.stream_destroy, "StreamDestroy");
  library.load(api.stream_wait_event, "StreamWaitEvent");
  library.load(api.event_create, "EventCreateWithFlags");
  library.load(api.event_destroy, "EventDestroy");
  library.load(api.event_record, "EventRecord");
  library.load(api.event_query, "EventQuery");
}

/// "2.19.3"; the number has two digits for the minor version since 2.9 (21903), one before (2708).
std::string version_text(int version) {
  const int thousand = version >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / thousand, version % thousand / 100, version % 100);
}

Result<NcclApi> loaded(const GpuVendor& vendor) {
  const Result<void*> collectives = opened(vendor.collectives);
  if (!collectives) {
    return tl::unexpected(collectives.error());
  }
  const Result<void*> runtime = opened(vendor.runtimes);
  if (!runtime) {
    return tl::unexpected(runtime.error());
  }
  NcclApi api;
  std::string missing;
  const Loader nccl(*collectives, "nccl", missing);
  load_collectives(nccl, api);
  load_runtime(Loader(*runtime, vendor.prefix, missing), api);
  int (*get_version)(int* version) = nullptr;
  Loader(*collectives, "nccl", missing).load(get_version, "GetVersion");
  if (!missing.empty()) {
    return failure(fmt::format("{} lacks {}; version 2.7 or later is needed", vendor.name, missing));
  }
  get_version(&api.version);
  api.name = fmt::format("{} {}", vendor.name, version_text(api.version));
  return api;
}

}  // namespace

Result<NcclApi> load_nccl(std::span<const GpuVendor> vendors) {
  std::string reasons;
  for (const GpuVendor& vendor : vendors) {
    Result<NcclApi> api = loaded(vendor);
    if (api) {
      return api;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", vendor.name, api.error().message);
  }
  return failure(
      fmt::format("no GPU communication library can be loaded ({}); install NCCL with the CUDA run time, or "
                  "RCCL with HIP, where the loader finds them",
                  reasons));
}

Result<const NcclApi*> loaded_nccl() {
  static const Result<NcclApi> api = load_nccl(k_vendors);
  if (!api) {
    return tl::unexpected(api.error());
  }
  return &*api;
}

}  // namespace commlens
