#include "commlens/transport/hardware.hpp"

#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/text.hpp"

#ifdef COMMLENS_HWLOC
#include <hwloc.h>
#endif

namespace commlens {
namespace {

#ifdef COMMLENS_HWLOC

namespace fs = std::filesystem;

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

constexpr const char* k_hwloc_file = "libhwloc.so.15";  // all of hwloc 2

/// The functions of hwloc that are called, of the library that was loaded.
struct HwlocApi {
  decltype(&hwloc_topology_init) init = nullptr;
  decltype(&hwloc_topology_destroy) destroy = nullptr;
  decltype(&hwloc_topology_set_io_types_filter) set_io_filter = nullptr;
  decltype(&hwloc_topology_load) load = nullptr;
  decltype(&hwloc_get_type_depth) type_depth = nullptr;
  decltype(&hwloc_get_nbobjs_by_depth) count_at_depth = nullptr;
  decltype(&hwloc_get_obj_by_depth) object_at_depth = nullptr;
  decltype(&hwloc_bitmap_weight) bitmap_weight = nullptr;
  decltype(&hwloc_bitmap_first) bitmap_first = nullptr;
};

template <typename Function>
bool load_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<HwlocApi> hwloc_api() {
  void* const library = dlopen(k_hwloc_file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return failure(fmt::format("{} does not load; install hwloc 2 (Debian: libhwloc15)", k_hwloc_file));
  }
  HwlocApi api;
  const bool is_whole = load_function(library, "hwloc_topology_init", api.init) &&
                        load_function(library, "hwloc_topology_destroy", api.destroy) &&
                        load_function(library, "hwloc_topology_set_io_types_filter", api.set_io_filter) &&
                        load_function(library, "hwloc_topology_load", api.load) &&
                        load_function(library, "hwloc_get_type_depth", api.type_depth) &&
                        load_function(library, "hwloc_get_nbobjs_by_depth", api.count_at_depth) &&
                        load_function(library, "hwloc_get_obj_by_depth", api.object_at_depth) &&
                        load_function(library, "hwloc_bitmap_weight", api.bitmap_weight) &&
                        load_function(library, "hwloc_bitmap_first", api.bitmap_first);
  return is_whole ? Result<HwlocApi>(api)
                  : failure(fmt::format("{} lacks functions of hwloc 2.0", k_hwloc_file));
}

std::vector<hwloc_obj_t> objects_of(const HwlocApi& api, hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  const int depth = api.type_depth(topology, type);
  const unsigned count = api.count_at_depth(topology, depth);
  for (unsigned index = 0; index < count; ++index) {
    objects.push_back(api.object_at_depth(topology, depth, index));
  }
  return objects;
}

std::string info_of(const hwloc_obj* object, std::string_view name) {
  for (unsigned index = 0; index < object->infos_count; ++index) {
    if (name == object->infos[index].name) {
      return object->infos[index].value;
    }
  }
  return "";
}

/// The NUMA node of the first ancestor that has CPUs, where it is one node's.
std::optional<std::int64_t> numa_of(const HwlocApi& api, const hwloc_obj* object) {
  while (object != nullptr && object->nodeset == nullptr) {
    object = object->parent;
  }
  return object != nullptr && api.bitmap_weight(object->nodeset) == 1
             ? std::optional<std::int64_t>(api.bitmap_first(object->nodeset))
             : std::nullopt;
}

/// The operating system's device of a PCI device that the kind wants; null: none.
const hwloc_obj* system_device(const hwloc_obj* pci, hwloc_obj_osdev_type_t type) {
  for (const hwloc_obj* child = pci->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == type) {
      return child;
    }
  }
  return nullptr;
}

void add_network(const hwloc_obj* pci, PciDevice& device) {
  if (const hwloc_obj* fabric = system_device(pci, HWLOC_OBJ_OSDEV_OPENFABRICS)) {
    device.name = fabric->name;
    const std::string rate = first_line(fs::path("/sys/class/infiniband") / device.name / "ports/1/rate");
    device.network_rate = port_rate(rate);
    const bool is_ethernet =
        first_line(fs::path("/sys/class/infiniband") / device.name / "ports/1/link_layer") == "Ethernet";
    device.network = is_ethernet ? "RoCE" : port_network(rate);
  } else if (const hwloc_obj* card = system_device(pci, HWLOC_OBJ_OSDEV_NETWORK)) {
    device.name = card->name;
    device.network = "Ethernet";
    const Result<std::int64_t> megabits =
        parse_integer(first_line(fs::path("/sys/class/net") / device.name / "speed"));
    if (megabits && *megabits > 0) {
      device.network_rate = static_cast<double>(*megabits) / 8000;
    }
  }
}

/// NVIDIA, AMD and Intel; the displays of others are those of management controllers.
bool makes_gpus(unsigned vendor) { return vendor == 0x10de || vendor == 0x1002 || vendor == 0x8086; }

/// A device with its kind; an empty kind: of none that matters here.
PciDevice device_from(const HwlocApi& api, const hwloc_obj* pci) {
  constexpr unsigned display = 0x03;
  constexpr unsigned network = 0x02;
  constexpr unsigned accelerator = 0x12;
  const auto& about = pci->attr->pcidev;
  PciDevice device;
  device.name = fmt::format("{:04x}:{:04x}", about.vendor_id, about.device_id);
  device.address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(about.domain),
                               static_cast<unsigned>(about.bus), static_cast<unsigned>(about.dev),
                               static_cast<unsigned>(about.func));
  device.numa = numa_of(api, pci);
  if (about.linkspeed > 0) {
    device.pci_rate = static_cast<double>(about.linkspeed);
  }
  const unsigned base = static_cast<unsigned>(about.class_id) >> 8U;
  const bool has_network = system_device(pci, HWLOC_OBJ_OSDEV_OPENFABRICS) != nullptr ||
                           system_device(pci, HWLOC_OBJ_OSDEV_NETWORK) != nullptr;
  if (base == network || has_network) {
    device.kind = "nic";
    add_network(pci, device);
  } else if ((base == display && makes_gpus(about.vendor_id)) || base == accelerator) {
    device.kind = "gpu";
  }
  return device;
}

Hardware hardware_of(const HwlocApi& api, hwloc_topology_t topology) {
  Hardware hardware;
  const hwloc_obj* const root = api.object_at_depth(topology, 0, 0);
  hardware.source = fmt::format("hwloc {}", info_of(root, "hwlocVersion"));
  if (root->total_memory > 0) {
    hardware.memory_gib = static_cast<double>(root->total_memory) / (1024.0 * 1024 * 1024);
  }
  const std::vector<hwloc_obj_t> packages = objects_of(api, topology, HWLOC_OBJ_PACKAGE);
  hardware.sockets = static_cast<std::int64_t>(packages.size());
  for (const hwloc_obj* package : packages) {
    hardware.cpu_vendor = info_of(package, "CPUVendor");
    hardware.cpu_model = info_of(package, "CPUModel");
  }
  hardware.numa_nodes = static_cast<std::int64_t>(objects_of(api, topology, HWLOC_OBJ_NUMANODE).size());
  hardware.cores = static_cast<std::int64_t>(objects_of(api, topology, HWLOC_OBJ_CORE).size());
  for (const hwloc_obj* pci : objects_of(api, topology, HWLOC_OBJ_PCI_DEVICE)) {
    if (PciDevice device = device_from(api, pci); !device.kind.empty()) {
      hardware.devices.push_back(std::move(device));
    }
  }
  return hardware;
}

#endif

}  // namespace

std::optional<double> port_rate(const std::string& text) {
  const std::size_t end = text.find(" Gb/sec");
  const Result<double> gigabits = parse_number(text.substr(0, end));
  return end != std::string::npos && gigabits && *gigabits > 0 ? std::optional(*gigabits / 8) : std::nullopt;
}

std::string port_network(const std::string& text) {
  const std::size_t open = text.find('(');
  const std::size_t space = text.find(' ', open);
  const std::size_t close = text.find(')', space);
  return open == std::string::npos || close == std::string::npos
             ? "InfiniBand"
             : fmt::format("{} InfiniBand", text.substr(space + 1, close - space - 1));
}

Result<Hardware> hardware_here() {
#ifdef COMMLENS_HWLOC
  return hwloc_api().and_then([](const HwlocApi& api) -> Result<Hardware> {
    hwloc_topology_t topology = nullptr;
    if (api.init(&topology) != 0) {
      return failure("hwloc cannot start");
    }
    const bool is_loaded =
        api.set_io_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 && api.load(topology) == 0;
    Result<Hardware> hardware =
        is_loaded ? Result<Hardware>(hardware_of(api, topology)) : failure("hwloc cannot see this machine");
    api.destroy(topology);
    return hardware;
  });
#else
  return failure(
      "this build has no hwloc; build commlens where its header is installed (Debian: libhwloc-dev)");
#endif
}

}  // namespace commlens
