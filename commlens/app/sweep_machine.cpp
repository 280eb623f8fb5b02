#include "commlens/app/sweep_machine.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

/// How much of a text names a machine; 0: it does not.
std::size_t named_length(const Machine& machine, const std::string& device) {
  if (device == machine.name) {
    return std::string::npos;
  }
  std::size_t longest = 0;
  for (const std::string& name : machine.devices) {
    longest = device.find(name) != std::string::npos ? std::max(longest, name.size()) : longest;
  }
  return longest;
}

std::optional<Machine> named_machine(const std::string& device) {
  std::optional<Machine> best;
  std::size_t longest = 0;
  for (const EmbeddedFile& built_in : built_in_machines()) {
    const Result<Machine> machine = find_machine(std::string(built_in.stem()));
    if (const std::size_t length = machine ? named_length(*machine, device) : 0; length > longest) {
      longest = length;
      best = *machine;
    }
  }
  return best;
}

/// A text by which points name their machine, the first of them, and the machine where one is known.
struct NamedDevice {
  std::string device;
  std::string where;
  std::optional<Machine> machine;

  std::string text() const {
    return machine ? fmt::format("'{}' ({})", device, machine->name) : fmt::format("'{}'", device);
  }
};

std::vector<NamedDevice> devices_of(const std::vector<SweepPoint>& points) {
  std::map<std::string, bool> seen;
  std::vector<NamedDevice> devices;
  for (const SweepPoint& point : points) {
    if (!point.device.empty() && seen.emplace(point.device, true).second) {
      devices.push_back({point.device, point.where, named_machine(point.device)});
    }
  }
  return devices;
}

bool is_same_machine(const NamedDevice& a, const NamedDevice& b) {
  return a.machine && b.machine ? a.machine->name == b.machine->name : a.device == b.device;
}

Result<Machine> asked_machine(const std::string& asked, const std::vector<NamedDevice>& devices,
                              const Events& events) {
  return find_machine(asked).map([&](Machine machine) {
    for (const NamedDevice& named : devices) {
      if (named.machine && named_length(machine, named.device) == 0 &&
          named.machine->processor.architecture != machine.processor.architecture) {
        events.warn(fmt::format("{} is of {}, not of {} ({})", named.where, named.text(), machine.name,
                                machine.processor.name));
      }
    }
    return machine;
  });
}

}  // namespace

Result<Machine> machine_of_sweep(const std::string& asked, const std::vector<SweepPoint>& points,
                                 const Events& events) {
  const std::vector<NamedDevice> devices = devices_of(points);
  for (const NamedDevice& named : devices) {
    if (!is_same_machine(named, devices.front())) {
      return failure(fmt::format("{} is of {}, {} of {}; calibrate each machine with its own times",
                                 devices.front().where, devices.front().text(), named.where, named.text()));
    }
  }
  if (!asked.empty()) {
    return asked_machine(asked, devices, events);
  }
  if (devices.empty()) {
    return failure("--machine is needed: the files do not say what was measured");
  }
  const NamedDevice& named = devices.front();
  return named.machine ? Result<Machine>(*named.machine)
                       : failure(fmt::format("--machine is needed: no machine here is '{}'", named.device));
}

}  // namespace commlens
