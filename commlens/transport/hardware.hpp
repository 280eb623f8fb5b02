#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// A device on the PCI bus of this machine that matters to communication.
struct PciDevice {
  std::string name;     // of the operating system, else vendor and device numbers: "mlx5_0", "10de:2330"
  std::string kind;     // "gpu" or "nic"
  std::string address;  // "0000:1b:00.0"
  std::optional<std::int64_t> numa;    // NUMA node that it is attached to
  std::optional<double> pci_rate;      // GB/s of its slot, per direction, as negotiated
  std::optional<double> network_rate;  // GB/s of a NIC's ports, per direction
  std::string network;                 // "HDR InfiniBand", "Ethernet"; empty: not said
};

/// What hwloc and the kernel say of this machine; absent is what they do not say.
struct Hardware {
  std::string source;  // "hwloc 2.9.0"
  std::string cpu_vendor;
  std::string cpu_model;
  std::int64_t sockets = 0;
  std::int64_t numa_nodes = 0;
  std::int64_t cores = 0;
  std::optional<double> memory_gib;
  std::vector<PciDevice> devices;
};

/// Loads hwloc when it is called. Fails where that cannot be, with what to install.
Result<Hardware> hardware_here();

/// GB/s of what the kernel says of an InfiniBand port: "200 Gb/sec (4X HDR)"; std::nullopt if it is no rate.
std::optional<double> port_rate(const std::string& text);

/// "HDR InfiniBand" of the same text.
std::string port_network(const std::string& text);

}  // namespace commlens
