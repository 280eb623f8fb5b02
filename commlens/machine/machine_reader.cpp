#include "commlens/machine/machine_reader.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "commlens/config/json_document.hpp"
#include "commlens/machine/machine_fields.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/machine/product_fields.hpp"

namespace commlens {
namespace {

constexpr QuantityRule k_link_rate = {"GB/s", .01, 20'000};
constexpr QuantityRule k_memory_rate = {"GB/s", 1, 100'000};
constexpr QuantityRule k_memory = {"GiB", .1, 10'000};
constexpr QuantityRule k_host_memory = {"GiB", .01, 1'000'000};
constexpr QuantityRule k_numa_node = {"number", 0, 1e6, true};
constexpr QuantityRule k_peak = {"TFLOP/s", .01, 1'000'000};
constexpr QuantityRule k_ranks = {"ranks", 1, 1024, true};
constexpr QuantityRule k_nodes = {"nodes", 1, 1e6, true};
constexpr QuantityRule k_nics = {"NICs", 1, 256, true};
constexpr QuantityRule k_links = {"links", 1, 256, true};
constexpr QuantityRule k_channels = {"channels", 1, 64, true};
constexpr QuantityRule k_model = {"number", 0, 5, true};
constexpr QuantityRule k_count = {"count", 0, 1e9, true};

/// Of links that a node, or the machine, does not have or that are not known, none need be given.
bool has_numbers(std::string_view kind) { return kind != "none" && kind != "unknown"; }

void read_processor(MachineFields& fields, const ConfigNode& root, Processor& processor) {
  const ConfigNode* const node = fields.field(root, "", "processor", true);
  if (node == nullptr) {
    return;
  }
  fields.known(*node, "processor", {"name", "architecture", "peaks", "memory", "memory_bandwidth", "gemm"});
  processor.name = fields.text(*node, "processor", "name");
  const std::string architecture = fields.text(*node, "processor", "architecture");
  if (const std::optional<Architecture> known = architecture_from(architecture)) {
    processor.architecture = *known;
  } else {
    fields.fail(*node, "processor.architecture", fmt::format("'{}' is not known", architecture));
  }
  processor.memory = fields.quantity(*node, "processor", "memory", k_memory, false);
  processor.memory_bandwidth = fields.quantity(*node, "processor", "memory_bandwidth", k_memory_rate, false);
  const ConfigNode* const peaks = fields.field(*node, "processor", "peaks", false);
  for (const std::string& name : peaks == nullptr ? std::vector<std::string>() : peaks->keys) {
    const std::optional<DType> type = dtype_from(name);
    if (!type) {
      fields.fail(*peaks, "processor.peaks." + name, "is no element type");
    } else if (const auto peak = fields.quantity(*peaks, "processor.peaks", name, k_peak, true)) {
      processor.peaks.emplace_back(*type, *peak);
    }
  }
  read_products(fields, *node, processor);
}

LinkClass link_class(MachineFields& fields, const ConfigNode& node, const std::string& path, double ranks) {
  LinkClass result;
  fields.known(node, path, {"name", "bandwidth", "pairs"});
  result.name = fields.text(node, path, "name");
  result.bandwidth = fields.quantity(node, path, "bandwidth", k_link_rate, true).value_or(Quantity{});
  for (const ConfigNode& item : fields.items(node, path, "pairs")) {
    if (item.kind != ConfigNode::Kind::list || item.items.size() != 2) {
      fields.fail(item, path + ".pairs", "must be pairs of ranks: [0, 1]");
      continue;
    }
    const std::int64_t first = fields.count(item.items[0], path + ".pairs");
    const std::int64_t second = fields.count(item.items[1], path + ".pairs");
    if (static_cast<double>(std::max(first, second)) >= ranks || first == second) {
      fields.fail(item, path + ".pairs",
                  fmt::format("[{}, {}] are not two of the node's {} ranks", first, second, ranks));
    }
    result.pairs.emplace_back(first, second);
  }
  return result;
}

void read_scale_up(MachineFields& fields, const ConfigNode& root, double ranks, ScaleUp& up) {
  const ConfigNode* const node = fields.field(root, "", "scale_up", true);
  if (node == nullptr) {
    return;
  }
  fields.known(*node, "scale_up", {"kind", "bandwidth", "links", "effective", "classes"});
  up.kind = fields.choice(*node, "scale_up", "kind", {"nvswitch", "mesh", "links", "none", "unknown"});
  up.bandwidth = fields.quantity(*node, "scale_up", "bandwidth", k_link_rate, has_numbers(up.kind));
  up.links = fields.quantity(*node, "scale_up", "links", k_links, false);
  up.effective = fields.quantity(*node, "scale_up", "effective", k_link_rate, false);
  for (const ConfigNode& item : fields.items(*node, "scale_up", "classes")) {
    up.classes.push_back(link_class(fields, item, "scale_up.classes", ranks));
  }
}

void read_scale_out(MachineFields& fields, const ConfigNode& root, double ranks, ScaleOut& out) {
  const ConfigNode* const node = fields.field(root, "", "scale_out", true);
  if (node == nullptr) {
    return;
  }
  fields.known(*node, "scale_out", {"kind", "type", "nics", "bandwidth", "owners", "shape"});
  out.kind = fields.choice(*node, "scale_out", "kind",
                           {"dragonfly", "fat tree", "rails", "torus", "none", "unknown"});
  out.type = fields.text(*node, "scale_out", "type", false);
  out.nics = fields.quantity(*node, "scale_out", "nics", k_nics, has_numbers(out.kind));
  out.bandwidth = fields.quantity(*node, "scale_out", "bandwidth", k_link_rate, has_numbers(out.kind));
  for (const std::int64_t owner : fields.counts(*node, "scale_out", "owners")) {
    if (static_cast<double>(owner) >= ranks) {
      fields.fail(*node, "scale_out.owners",
                  fmt::format("{} is not one of the node's {} ranks", owner, ranks));
    }
    out.owners.push_back(owner);
  }
  const ConfigNode* const shape = fields.field(*node, "scale_out", "shape", false);
  if (shape == nullptr) {
    return;
  }
  for (const std::string& name : shape->keys) {
    if (const auto count = fields.quantity(*shape, "scale_out.shape", name, k_count, true)) {
      out.shape.emplace_back(name, *count);
    }
  }
}

void read_graph(MachineFields& fields, const ConfigNode& root, std::vector<GraphFact>& graph) {
  for (const ConfigNode& item : fields.items(root, "", "graph")) {
    fields.known(item, "graph", {"pattern", "several_nodes", "channels", "speed"});
    GraphFact fact;
    fact.pattern = fields.choice(item, "graph", "pattern", {"ring", "nvls"});
    fact.several_nodes = fields.flag(item, "several_nodes");
    fact.channels = fields.quantity(item, "graph", "channels", k_channels, true).value_or(Quantity{});
    fact.speed = fields.quantity(item, "graph", "speed", k_link_rate, true).value_or(Quantity{});
    graph.push_back(std::move(fact));
  }
}

HostDevice host_device(MachineFields& fields, const ConfigNode& node) {
  const std::string path = "host.devices";
  fields.known(node, path, {"name", "kind", "address", "numa_node", "pci_bandwidth", "bandwidth"});
  return {fields.text(node, path, "name"),
          fields.text(node, path, "kind"),
          fields.text(node, path, "address", false),
          fields.quantity(node, path, "numa_node", k_numa_node, false),
          fields.quantity(node, path, "pci_bandwidth", k_link_rate, false),
          fields.quantity(node, path, "bandwidth", k_link_rate, false)};
}

std::optional<Host> host_of(MachineFields& fields, const ConfigNode& root) {
  const ConfigNode* const node = fields.field(root, "", "host", false);
  if (node == nullptr) {
    return std::nullopt;
  }
  fields.known(*node, "host", {"cpu", "sockets", "numa_nodes", "cores", "memory", "devices"});
  Host host;
  host.cpu = fields.text(*node, "host", "cpu", false);
  host.sockets = fields.quantity(*node, "host", "sockets", k_count, false);
  host.numa_nodes = fields.quantity(*node, "host", "numa_nodes", k_count, false);
  host.cores = fields.quantity(*node, "host", "cores", k_count, false);
  host.memory = fields.quantity(*node, "host", "memory", k_host_memory, false);
  for (const ConfigNode& device : fields.items(*node, "host", "devices")) {
    host.devices.push_back(host_device(fields, device));
  }
  return host;
}

Knots knots_from(MachineFields& fields, const ConfigNode& node, const std::string& path) {
  Knots knots;
  const ConfigNode* const ranks = fields.field(node, path, "ranks", true);
  const ConfigNode* const nodes = fields.field(node, path, "nodes", true);
  knots.ranks = ranks == nullptr ? 1 : fields.count(*ranks, path + ".ranks");
  knots.nodes = nodes == nullptr ? 1 : fields.count(*nodes, path + ".nodes");
  knots.bytes = fields.counts(node, path, "bytes");
  knots.us = fields.numbers(node, path, "us");
  bool is_good =
      knots.ranks >= 1 && knots.nodes >= 1 && !knots.bytes.empty() && knots.bytes.size() == knots.us.size();
  for (std::size_t index = 0; is_good && index < knots.us.size(); ++index) {
    is_good = knots.bytes[index] > 0 && knots.us[index] > 0 &&
              (index == 0 ||
               (knots.bytes[index] > knots.bytes[index - 1] && knots.us[index] >= knots.us[index - 1]));
  }
  if (!is_good) {
    fields.fail(node, path, "needs as many sizes as times, both above 0 and ascending");
  }
  return knots;
}

PairFit pair_from(MachineFields& fields, const ConfigNode& node) {
  const std::string path = "calibrations.pairs";
  fields.known(node, path,
               {"op", "algorithm", "protocol", "several_nodes", "rows", "coefficients_us", "knots"});
  PairFit fit;
  const std::string op = fields.text(node, path, "op");
  if (const std::optional<CommKind> kind = comm_kind_from(op)) {
    fit.op = *kind;
  } else {
    fields.fail(node, path + ".op", fmt::format("'{}' is no operation", op));
  }
  fit.algorithm = fields.text(node, path, "algorithm");
  fit.protocol = fields.text(node, path, "protocol");
  fit.several_nodes = fields.flag(node, "several_nodes");
  const ConfigNode* const rows = fields.field(node, path, "rows", true);
  fit.rows = rows == nullptr ? 0 : fields.count(*rows, path + ".rows");
  const std::vector<double> coefficients = fields.numbers(node, path, "coefficients_us");
  bool is_good = coefficients.size() == fit.coefficients.size();
  for (std::size_t index = 0; is_good && index < coefficients.size(); ++index) {
    is_good = coefficients[index] >= 0 && std::isfinite(coefficients[index]);
    fit.coefficients[index] = coefficients[index];
  }
  if (!is_good) {
    fields.fail(node, path + ".coefficients_us", "must be six numbers, none below 0");
  }
  for (const ConfigNode& item : fields.items(node, path, "knots")) {
    fit.knots.push_back(knots_from(fields, item, path + ".knots"));
  }
  return fit;
}

std::array<double, 5> spread_from(MachineFields& fields, const ConfigNode& node, const std::string& path,
                                  const std::string& key) {
  std::array<double, 5> spread{};
  const std::vector<double> values = fields.numbers(node, path, key);
  bool is_good = values.size() == spread.size();
  for (std::size_t index = 0; is_good && index < values.size(); ++index) {
    is_good = values[index] > 0 && values[index] < 5;
    spread[index] = values[index];
  }
  if (!is_good) {
    fields.fail(node, path + "." + key, "must be five numbers between 0 and 5");
  }
  return spread;
}

void read_calibrations(MachineFields& fields, const ConfigNode& root,
                       std::vector<Calibration>& calibrations) {
  const std::string path = "calibrations";
  for (const ConfigNode& item : fields.items(root, "", "calibrations")) {
    fields.known(
        item, path,
        {"library", "version", "source", "confidence", "shape_from", "spread", "spread_of_nodes", "pairs"});
    Calibration calibration;
    calibration.library = fields.text(item, path, "library");
    calibration.version = fields.text(item, path, "version", false);
    calibration.source = fields.text(item, path, "source");
    calibration.confidence = fields.confidence(item, path);
    calibration.shape_from = fields.text(item, path, "shape_from", false);
    calibration.spread = spread_from(fields, item, path, "spread");
    calibration.spread_of_nodes = spread_from(fields, item, path, "spread_of_nodes");
    for (const ConfigNode& pair : fields.items(item, path, "pairs")) {
      calibration.pairs.push_back(pair_from(fields, pair));
    }
    calibrations.push_back(std::move(calibration));
  }
}

/// The machine that another borrows from: a known one or a file.
std::string lender_name(MachineFields& fields, const ConfigNode& root) {
  const std::string lender = fields.text(root, "", "borrows", false);
  const std::span<const EmbeddedFile> known = built_in_machines();
  const bool is_known = std::any_of(known.begin(), known.end(),
                                    [&](const EmbeddedFile& each) { return each.stem() == lender; });
  std::error_code unreadable;
  if (!lender.empty() && !is_known && !std::filesystem::exists(lender, unreadable)) {
    fields.fail(
        *fields.field(root, "", "borrows", true), "borrows",
        fmt::format("'{}' is no file and none of the known machines, which commlens machines lists", lender));
  }
  return lender;
}

Machine machine_from(MachineFields& fields, const ConfigNode& root) {
  Machine machine;
  fields.known(root, "",
               {"schema", "name", "title", "devices", "nodes", "ranks_per_node", "cpu", "processor",
                "scale_up", "scale_out", "graph", "rccl_model", "host", "borrows", "calibrations"});
  if (fields.text(root, "", "schema") != "commlens.machine/1") {
    fields.fail(root, "schema", "must be 'commlens.machine/1'");
  }
  machine.name = fields.text(root, "", "name");
  machine.title = fields.text(root, "", "title");
  for (const ConfigNode& device : fields.items(root, "", "devices")) {
    if (device.kind != ConfigNode::Kind::scalar || device.text.empty()) {
      fields.fail(device, "devices", "must be texts");
    }
    machine.devices.push_back(device.text);
  }
  machine.nodes = fields.quantity(root, "", "nodes", k_nodes, false);
  machine.ranks_per_node = fields.quantity(root, "", "ranks_per_node", k_ranks, true).value_or(Quantity{});
  const std::string cpu = fields.text(root, "", "cpu");
  if (const std::optional<CpuVendor> vendor = cpu_vendor_from(cpu)) {
    machine.cpu = *vendor;
  } else {
    fields.fail(root, "cpu", fmt::format("'{}' is not known; choose intel, amd, arm or other", cpu));
  }
  const double ranks = machine.ranks_per_node.value;
  read_processor(fields, root, machine.processor);
  read_scale_up(fields, root, ranks, machine.up);
  read_scale_out(fields, root, ranks, machine.out);
  read_graph(fields, root, machine.graph);
  machine.rccl_model = fields.quantity(root, "", "rccl_model", k_model, false);
  machine.host = host_of(fields, root);
  machine.borrows = lender_name(fields, root);
  read_calibrations(fields, root, machine.calibrations);
  return machine;
}

}  // namespace

Result<Machine> read_machine(std::string_view file, std::string_view content) {
  return parse_json(file, content).and_then([&](const ConfigNode& root) -> Result<Machine> {
    if (root.kind != ConfigNode::Kind::map) {
      return failure(fmt::format("{}: is no machine file: an object is expected", file));
    }
    MachineFields fields;
    fields.each_key_once(root, "");
    Machine machine = machine_from(fields, root);
    return fields.error().empty() ? Result<Machine>(std::move(machine)) : failure(fields.error());
  });
}

}  // namespace commlens
