#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/machine/machine_reader.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// With seven digits: as much as any measurement has, and the same bytes on every machine.
double rounded(double value) { return std::stod(fmt::format("{:.7g}", value)); }

Json number(double value) {
  const double kept = rounded(value);
  const auto whole = static_cast<std::int64_t>(kept);
  return static_cast<double>(whole) == kept ? Json(whole) : Json(kept);
}

Json quantity_json(const Quantity& quantity) {
  return {{"value", number(quantity.value)},
          {"unit", quantity.unit},
          {"source", quantity.source},
          {"confidence", std::string(1, quantity.confidence)}};
}

void add(Json& to, const char* key, const std::optional<Quantity>& quantity) {
  if (quantity) {
    to[key] = quantity_json(*quantity);
  }
}

Json products_json(const ProductTimes& products) {
  Json json = Json::object();
  if (products.form) {
    json["efficiency"] = quantity_json(products.form->efficiency);
    json["per_gemm"] = quantity_json(products.form->each);
    json["half_inner"] = quantity_json(products.form->half_inner);
    json["wave_weight"] = quantity_json(products.form->wave_weight);
    json["multiprocessors"] = quantity_json(products.form->processors);
  }
  if (!products.shapes.empty()) {
    Json& shapes = json["shapes"];
    shapes = {{"source", products.shapes_source},
              {"confidence", std::string(1, products.shapes_confidence)},
              {"m_n_k_us", Json::array()}};
    for (const ProductTime& shape : products.shapes) {
      shapes["m_n_k_us"].push_back({shape.m, shape.n, shape.k, number(shape.us)});
    }
  }
  return json;
}

Json processor_json(const Processor& processor) {
  Json json = {{"name", processor.name}, {"architecture", std::string(name_of(processor.architecture))}};
  for (const auto& [type, peak] : processor.peaks) {
    json["peaks"][std::string(name_of(type))] = quantity_json(peak);
  }
  add(json, "memory", processor.memory);
  add(json, "memory_bandwidth", processor.memory_bandwidth);
  for (const ProductTimes& products : processor.products) {
    json["gemm"][std::string(name_of(products.dtype))] = products_json(products);
  }
  return json;
}

Json scale_up_json(const ScaleUp& up) {
  Json json = {{"kind", up.kind}};
  add(json, "bandwidth", up.bandwidth);
  add(json, "links", up.links);
  add(json, "effective", up.effective);
  for (const LinkClass& link : up.classes) {
    json["classes"].push_back(
        {{"name", link.name}, {"bandwidth", quantity_json(link.bandwidth)}, {"pairs", link.pairs}});
  }
  return json;
}

Json scale_out_json(const ScaleOut& out) {
  Json json = {{"kind", out.kind}};
  if (!out.type.empty()) {
    json["type"] = out.type;
  }
  add(json, "nics", out.nics);
  add(json, "bandwidth", out.bandwidth);
  if (!out.owners.empty()) {
    json["owners"] = out.owners;
  }
  for (const auto& [name, count] : out.shape) {
    json["shape"][name] = quantity_json(count);
  }
  return json;
}

Json host_json(const Host& host) {
  Json json = Json::object();
  if (!host.cpu.empty()) {
    json["cpu"] = host.cpu;
  }
  add(json, "sockets", host.sockets);
  add(json, "numa_nodes", host.numa_nodes);
  add(json, "cores", host.cores);
  add(json, "memory", host.memory);
  for (const HostDevice& device : host.devices) {
    Json item = {{"name", device.name}, {"kind", device.kind}};
    if (!device.address.empty()) {
      item["address"] = device.address;
    }
    add(item, "numa_node", device.numa_node);
    add(item, "pci_bandwidth", device.pci_bandwidth);
    add(item, "bandwidth", device.bandwidth);
    json["devices"].push_back(std::move(item));
  }
  return json;
}

Json numbers_json(const auto& values) {
  Json json = Json::array();
  for (const double value : values) {
    json.push_back(number(value));
  }
  return json;
}

Json pair_json(const PairFit& fit) {
  Json json = {{"op", std::string(name_of(fit.op))},
               {"algorithm", fit.algorithm},
               {"protocol", fit.protocol},
               {"several_nodes", fit.several_nodes},
               {"rows", fit.rows},
               {"coefficients_us", numbers_json(fit.coefficients)}};
  json["knots"] = Json::array();
  for (const Knots& knots : fit.knots) {
    json["knots"].push_back({{"ranks", knots.ranks},
                             {"nodes", knots.nodes},
                             {"bytes", knots.bytes},
                             {"us", numbers_json(knots.us)}});
  }
  return json;
}

Json calibration_json(const Calibration& calibration) {
  Json json = {{"library", calibration.library},
               {"version", calibration.version},
               {"source", calibration.source},
               {"confidence", std::string(1, calibration.confidence)}};
  if (!calibration.shape_from.empty()) {
    json["shape_from"] = calibration.shape_from;
  }
  json["spread"] = numbers_json(calibration.spread);
  json["spread_of_nodes"] = numbers_json(calibration.spread_of_nodes);
  json["pairs"] = Json::array();
  for (const PairFit& fit : calibration.pairs) {
    json["pairs"].push_back(pair_json(fit));
  }
  return json;
}

bool is_short(const Json& json) {
  for (const Json& item : json) {
    if (item.is_structured() && (item.is_object() || !is_short(item))) {
      return false;
    }
  }
  return true;
}

/// Objects and lists of plain values on one line, others a line an item: a file that people can read.
void write(std::string& out, const Json& json, std::size_t indent) {
  if (!json.is_structured() || is_short(json)) {
    out += json.dump();
    return;
  }
  const std::string margin(indent + 1, ' ');
  const bool is_object = json.is_object();
  out += is_object ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, item] : json.items()) {
    out += is_first ? "\n" : ",\n";
    is_first = false;
    out += margin;
    if (is_object) {
      out += Json(key).dump() + ": ";
    }
    write(out, item, indent + 1);
  }
  out += '\n' + std::string(indent, ' ') + (is_object ? '}' : ']');
}

}  // namespace

std::string machine_json(const Machine& machine) {
  Json json = {{"schema", "commlens.machine/1"}, {"name", machine.name}, {"title", machine.title}};
  if (!machine.devices.empty()) {
    json["devices"] = machine.devices;
  }
  add(json, "nodes", machine.nodes);
  json["ranks_per_node"] = quantity_json(machine.ranks_per_node);
  json["cpu"] = std::string(name_of(machine.cpu));
  json["processor"] = processor_json(machine.processor);
  json["scale_up"] = scale_up_json(machine.up);
  json["scale_out"] = scale_out_json(machine.out);
  for (const GraphFact& fact : machine.graph) {
    json["graph"].push_back({{"pattern", fact.pattern},
                             {"several_nodes", fact.several_nodes},
                             {"channels", quantity_json(fact.channels)},
                             {"speed", quantity_json(fact.speed)}});
  }
  add(json, "rccl_model", machine.rccl_model);
  if (machine.host) {
    json["host"] = host_json(*machine.host);
  }
  if (!machine.borrows.empty()) {
    json["borrows"] = machine.borrows;
  }
  for (const Calibration& calibration : machine.calibrations) {
    json["calibrations"].push_back(calibration_json(calibration));
  }
  std::string out;
  write(out, json, 0);
  return out + '\n';
}

}  // namespace commlens
