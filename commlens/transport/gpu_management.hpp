#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace commlens {

/// What the vendor's library says of a GPU; absent is what it does not say.
struct GpuFacts {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string architecture;  // as machine files name it: "hopper"; empty: not known
  std::optional<double> memory_gib;
  std::optional<double> memory_rate;  // GB/s, of clock and width of the bus
  std::optional<std::int64_t> links;  // to other GPUs or their switch, that are up
  bool is_switched = false;           // these links end at a switch
};

/// The GPUs of this machine, in the order of the library; none where it is not installed.
struct GpuList {
  std::string source;  // "NVML (driver 550.54.15)", "ROCm SMI"; empty: neither is installed
  std::vector<GpuFacts> gpus;
};

/// NVML, else ROCm SMI, loaded when it is called; the files are those of the loader unless others are named.
GpuList gpus_here(const std::string& nvml = "libnvidia-ml.so.1",
                  const std::vector<std::string>& rocm_smi = {"librocm_smi64.so.1", "librocm_smi64.so.7",
                                                              "librocm_smi64.so.6", "librocm_smi64.so.5",
                                                              "librocm_smi64.so"});

}  // namespace commlens
