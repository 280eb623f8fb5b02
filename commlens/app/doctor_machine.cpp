#include "commlens/app/doctor_machine.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/transport/gpu_management.hpp"
#include "commlens/transport/hardware.hpp"

namespace commlens {
namespace {

/// What says a number of this machine.
struct Witness {
  std::string source;
  char confidence = 'A';
  Quantity of(double value, const char* unit) const { return {value, unit, source, confidence}; }
  std::optional<Quantity> of(const std::optional<double>& value, const char* unit) const {
    return value ? std::optional(of(*value, unit)) : std::nullopt;
  }
};

CpuVendor vendor_of(const Hardware& hardware) {
  const auto says = [&](const char* word) {
    return hardware.cpu_vendor.find(word) != std::string::npos ||
           hardware.cpu_model.find(word) != std::string::npos;
  };
#ifdef __aarch64__
  return CpuVendor::arm;
#else
  return says("Intel") ? CpuVendor::intel : says("AMD") ? CpuVendor::amd : CpuVendor::other;
#endif
}

/// GB/s of an NVLink per direction, and what NCCL counts of it.
struct NvLink {
  Architecture architecture;
  double rate;
  double effective;
};
constexpr std::array<NvLink, 4> k_nvlinks = {{{Architecture::volta, 25, 20},
                                              {Architecture::ampere, 25, 20},
                                              {Architecture::hopper, 25, 20.6},
                                              {Architecture::blackwell, 50, 40.1}}};

ScaleUp scale_up_of(const GpuList& list, Architecture architecture) {
  ScaleUp up;
  if (list.gpus.size() < 2) {
    up.kind = "none";
    return up;
  }
  up.kind = "unknown";
  const GpuFacts& gpu = list.gpus.front();
  const auto link = std::ranges::find(k_nvlinks, architecture, &NvLink::architecture);
  if (!gpu.links || link == k_nvlinks.end()) {
    return up;
  }
  const auto links = static_cast<double>(*gpu.links);
  up.kind = gpu.is_switched ? "nvswitch" : "links";
  up.links = Witness{list.source}.of(links, "links");
  up.bandwidth =
      Witness{fmt::format("{} links of {} ({:g} GB/s each)", links, list.source, link->rate), 'D'}.of(
          links * link->rate, "GB/s");
  up.effective = Witness{"NVIDIA/nccl@5067397c src/graph/topo.h:19-24"}.of(link->effective, "GB/s");
  return up;
}

/// The NICs of jobs: those of a fabric, or where there are none, of Ethernet.
std::vector<PciDevice> job_nics(const Hardware& hardware) {
  std::vector<PciDevice> fabric;
  std::vector<PciDevice> ethernet;
  for (const PciDevice& device : hardware.devices) {
    if (device.kind == "nic") {
      (device.network == "Ethernet" || device.network.empty() ? ethernet : fabric).push_back(device);
    }
  }
  return fabric.empty() ? ethernet : fabric;
}

ScaleOut scale_out_of(const Hardware& hardware) {
  const std::vector<PciDevice> nics = job_nics(hardware);
  ScaleOut out;
  out.kind = nics.empty() ? "none" : "unknown";
  if (nics.empty()) {
    return out;
  }
  out.type = nics.front().network;
  out.nics = Witness{hardware.source}.of(static_cast<double>(nics.size()), "NICs");
  const std::optional<double> rate = nics.front().network_rate;
  const bool is_same =
      std::ranges::all_of(nics, [&](const PciDevice& nic) { return nic.network_rate == rate; });
  if (is_same) {
    out.bandwidth = Witness{"the kernel, /sys/class"}.of(rate, "GB/s");
  }
  return out;
}

Host host_from(const Hardware& hardware) {
  const Witness hwloc{hardware.source};
  Host host;
  host.cpu = hardware.cpu_model;
  const auto count = [&](std::int64_t number) {
    return number > 0 ? std::optional(hwloc.of(static_cast<double>(number), "count")) : std::nullopt;
  };
  host.sockets = count(hardware.sockets);
  host.numa_nodes = count(hardware.numa_nodes);
  host.cores = count(hardware.cores);
  host.memory = hwloc.of(hardware.memory_gib, "GiB");
  for (const PciDevice& device : hardware.devices) {
    HostDevice& added = host.devices.emplace_back();
    added.name = device.name;
    added.kind = device.kind;
    added.address = device.address;
    if (device.numa) {
      added.numa_node = hwloc.of(static_cast<double>(*device.numa), "number");
    }
    added.pci_bandwidth = hwloc.of(device.pci_rate, "GB/s");
    added.bandwidth = Witness{"the kernel, /sys/class"}.of(device.network_rate, "GB/s");
  }
  return host;
}

Processor processor_of(const Hardware& hardware, const GpuList& list) {
  Processor processor;
  processor.name = hardware.cpu_model.empty() ? "CPU" : hardware.cpu_model;
  if (!list.gpus.empty()) {
    const GpuFacts& gpu = list.gpus.front();
    processor.name = gpu.name.empty() ? "GPU" : gpu.name;
    processor.architecture = architecture_from(gpu.architecture).value_or(Architecture::other);
    processor.memory = Witness{list.source}.of(gpu.memory_gib, "GiB");
    processor.memory_bandwidth =
        Witness{fmt::format("clock and width of the memory bus, {}", list.source), 'D'}.of(gpu.memory_rate,
                                                                                           "GB/s");
  }
  return processor;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name.front() != '\0' ? name.data() : "here";
}

}  // namespace

Machine machine_from_hardware(const Hardware& hardware, const GpuList& gpus, const std::string& host) {
  Machine machine;
  machine.name = host;
  machine.processor = processor_of(hardware, gpus);
  const bool has_gpus = !gpus.gpus.empty();
  const auto ranks =
      has_gpus ? static_cast<std::int64_t>(gpus.gpus.size()) : std::max<std::int64_t>(hardware.cores, 1);
  machine.title =
      fmt::format("{}, {} {} of {}", host, ranks, has_gpus ? "GPUs" : "cores", machine.processor.name);
  if (has_gpus && !gpus.gpus.front().name.empty()) {
    machine.devices = {gpus.gpus.front().name};
  }
  machine.ranks_per_node = Witness{has_gpus ? gpus.source : hardware.source + ", a rank a core"}.of(
      static_cast<double>(ranks), "ranks");
  machine.cpu = vendor_of(hardware);
  machine.up = scale_up_of(gpus, machine.processor.architecture);
  if (!has_gpus && ranks > 1) {
    machine.up.kind = "unknown";
  }
  machine.out = scale_out_of(hardware);
  machine.host = host_from(hardware);
  return machine;
}

Result<Machine> machine_here() {
  return hardware_here().map(
      [](const Hardware& hardware) { return machine_from_hardware(hardware, gpus_here(), host_name()); });
}

}  // namespace commlens
