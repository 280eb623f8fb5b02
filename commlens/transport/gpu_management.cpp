#include "commlens/transport/gpu_management.hpp"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

namespace commlens {
namespace {

constexpr double k_gib = 1024.0 * 1024 * 1024;
constexpr unsigned k_name_bytes = 96;

/// A function of a library; null where it has none of that name.
template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

/// Whether a function is there and does what it is asked: both libraries return 0.
template <typename Function, typename... Arguments>
bool succeeds(Function* function, Arguments... arguments) {
  return function != nullptr && function(arguments...) == 0;
}

// Types and values of nvml.h, which not every machine has.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
constexpr unsigned k_nvml_links = 18;     // NVML_NVLINK_MAX_LINKS
constexpr int k_nvml_clock_memory = 2;    // NVML_CLOCK_MEM
constexpr unsigned k_nvml_to_switch = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH

std::string architecture_of(int major) {
  return major == 7    ? "volta"
         : major == 8  ? "ampere"
         : major == 9  ? "hopper"
         : major == 10 ? "blackwell"
                       : "";
}

void add_links(void* library, NvmlDevice device, GpuFacts& gpu) {
  auto* const state = function_of<int(NvmlDevice, unsigned, unsigned*)>(library, "nvmlDeviceGetNvLinkState");
  auto* const remote =
      function_of<int(NvmlDevice, unsigned, unsigned*)>(library, "nvmlDeviceGetNvLinkRemoteDeviceType");
  std::int64_t links = 0;
  for (unsigned link = 0; link < k_nvml_links; ++link) {
    unsigned is_up = 0;
    unsigned type = 0;
    if (succeeds(state, device, link, &is_up) && is_up == 1) {
      ++links;
      gpu.is_switched =
          gpu.is_switched || (succeeds(remote, device, link, &type) && type == k_nvml_to_switch);
    }
  }
  if (links > 0) {
    gpu.links = links;
  }
}

GpuFacts nvml_gpu(void* library, NvmlDevice device) {
  GpuFacts gpu;
  std::array<char, k_name_bytes> name{};
  if (succeeds(function_of<int(NvmlDevice, char*, unsigned)>(library, "nvmlDeviceGetName"), device,
               name.data(), k_name_bytes)) {
    gpu.name = name.data();
  }
  NvmlMemory memory;
  if (succeeds(function_of<int(NvmlDevice, NvmlMemory*)>(library, "nvmlDeviceGetMemoryInfo"), device,
               &memory)) {
    gpu.memory_gib = static_cast<double>(memory.total) / k_gib;
  }
  int major = 0;
  int minor = 0;
  if (succeeds(function_of<int(NvmlDevice, int*, int*)>(library, "nvmlDeviceGetCudaComputeCapability"),
               device, &major, &minor)) {
    gpu.architecture = architecture_of(major);
  }
  unsigned megahertz = 0;
  unsigned bits = 0;
  if (succeeds(function_of<int(NvmlDevice, int, unsigned*)>(library, "nvmlDeviceGetMaxClockInfo"), device,
               k_nvml_clock_memory, &megahertz) &&
      succeeds(function_of<int(NvmlDevice, unsigned*)>(library, "nvmlDeviceGetMemoryBusWidth"), device,
               &bits) &&
      megahertz > 0 && bits > 0) {
    gpu.memory_rate = 2 * megahertz * (bits / 8.0) / 1000;  // two transfers a clock
  }
  add_links(library, device, gpu);
  return gpu;
}

GpuList nvml_gpus(void* library) {
  GpuList list;
  unsigned count = 0;
  if (!succeeds(function_of<int()>(library, "nvmlInit_v2")) ||
      !succeeds(function_of<int(unsigned*)>(library, "nvmlDeviceGetCount_v2"), &count)) {
    return list;
  }
  std::array<char, k_name_bytes> driver{};
  succeeds(function_of<int(char*, unsigned)>(library, "nvmlSystemGetDriverVersion"), driver.data(),
           k_name_bytes);
  list.source = fmt::format("NVML (driver {})", driver.data());
  auto* const handle = function_of<int(unsigned, NvmlDevice*)>(library, "nvmlDeviceGetHandleByIndex_v2");
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    if (succeeds(handle, index, &device)) {
      list.gpus.push_back(nvml_gpu(library, device));
    }
  }
  succeeds(function_of<int()>(library, "nvmlShutdown"));
  return list;
}

/// By the PCI device number: MI210, MI250 and MI250X; MI300A, MI300X and MI325X.
std::string amd_architecture(std::uint16_t device) {
  constexpr std::array<std::uint16_t, 3> cdna2 = {0x7408, 0x740c, 0x740f};
  constexpr std::array<std::uint16_t, 3> cdna3 = {0x74a0, 0x74a1, 0x74a5};
  const auto holds = [device](const auto& numbers) {
    for (const std::uint16_t number : numbers) {
      if (number == device) {
        return true;
      }
    }
    return false;
  };
  return holds(cdna2) ? "cdna2" : holds(cdna3) ? "cdna3" : "";
}

GpuList rocm_gpus(void* library) {
  GpuList list;
  std::uint32_t count = 0;
  if (!succeeds(function_of<int(std::uint64_t)>(library, "rsmi_init"), std::uint64_t{0}) ||
      !succeeds(function_of<int(std::uint32_t*)>(library, "rsmi_num_monitor_devices"), &count)) {
    return list;
  }
  list.source = "ROCm SMI";
  for (std::uint32_t index = 0; index < count; ++index) {
    GpuFacts gpu;
    std::array<char, k_name_bytes> name{};
    if (succeeds(function_of<int(std::uint32_t, char*, std::size_t)>(library, "rsmi_dev_name_get"), index,
                 name.data(), name.size())) {
      gpu.name = name.data();
    }
    std::uint64_t bytes = 0;
    constexpr int of_gpu = 0;  // RSMI_MEM_TYPE_VRAM
    if (succeeds(function_of<int(std::uint32_t, int, std::uint64_t*)>(library, "rsmi_dev_memory_total_get"),
                 index, of_gpu, &bytes)) {
      gpu.memory_gib = static_cast<double>(bytes) / k_gib;
    }
    std::uint16_t device = 0;
    if (succeeds(function_of<int(std::uint32_t, std::uint16_t*)>(library, "rsmi_dev_id_get"), index,
                 &device)) {
      gpu.architecture = amd_architecture(device);
    }
    list.gpus.push_back(std::move(gpu));
  }
  succeeds(function_of<int()>(library, "rsmi_shut_down"));
  return list;
}

}  // namespace

GpuList gpus_here(const std::string& nvml, const std::vector<std::string>& rocm_smi) {
  if (void* const library = dlopen(nvml.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    if (GpuList list = nvml_gpus(library); !list.gpus.empty()) {
      return list;
    }
  }
  for (const std::string& file : rocm_smi) {
    if (void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      return rocm_gpus(library);
    }
  }
  return {};
}

}  // namespace commlens
