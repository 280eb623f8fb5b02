#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// A number of a machine file, with its unit and where it comes from.
struct Quantity {
  double value = 0;
  std::string unit;  // "GB/s" (1e9 B/s, per direction), "GiB", "TFLOP/s", "us", or what is counted ("ranks")
  std::string source;  // a page, a file and line, or the command that measured it
  char confidence =
      'C';  // A: read in a primary source; B: in a secondary one; C: to verify; D: derived; M: measured
};

/// Generation of a processor, as far as a library's tables tell them apart.
enum class Architecture : std::uint8_t { volta, ampere, hopper, blackwell, cdna2, cdna3, other };
std::string_view name_of(Architecture architecture);
std::optional<Architecture> architecture_from(std::string_view name);

enum class CpuVendor : std::uint8_t { intel, amd, arm, other };
std::string_view name_of(CpuVendor vendor);
std::optional<CpuVendor> cpu_vendor_from(std::string_view name);

/// How long matrix products take by what was fitted to them (docs/time-model.md#kernels).
struct ProductForm {
  Quantity efficiency;   // share of the peak, of a product of endless inner dimension
  Quantity each;         // us of every product, beside its operations
  Quantity half_inner;   // elements: the inner dimension at which half of the efficiency is reached
  Quantity wave_weight;  // share of the last, unfilled wave of tiles that counts
  Quantity processors;   // multiprocessors, that tiles are spread over
};

/// A product [m, k] x [k, n] that was measured.
struct ProductTime {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double us = 0;
};

/// What is known of matrix products in one element type: a form, times of exact shapes, which win, or both.
struct ProductTimes {
  DType dtype = DType::bf16;
  std::optional<ProductForm> form;
  std::vector<ProductTime> shapes;  // each once
  std::string shapes_source;
  char shapes_confidence = 'M';
};

/// What one rank of a job runs on: a GPU, or the part of one that programs see as a device.
struct Processor {
  std::string name;
  Architecture architecture = Architecture::other;
  std::vector<std::pair<DType, Quantity>> peaks;  // dense, TFLOP/s
  std::optional<Quantity> memory;                 // GiB
  std::optional<Quantity> memory_bandwidth;       // GB/s
  std::vector<ProductTimes> products;             // of an element type each
};

/// A kind of link, and the pairs of a node's ranks that it connects.
struct LinkClass {
  std::string name;
  Quantity bandwidth;  // GB/s, of one pair, per direction
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
};

/// How the ranks of a node reach each other.
struct ScaleUp {
  std::string kind;                   // "nvswitch", "mesh", "links", "none", "unknown"
  std::optional<Quantity> bandwidth;  // GB/s of one rank, per direction
  std::optional<Quantity> links;      // of one rank
  std::optional<Quantity> effective;  // GB/s of one link as the library counts it
  std::vector<LinkClass> classes;
};

/// How nodes reach each other.
struct ScaleOut {
  std::string kind;                   // "dragonfly", "fat tree", "rails", "torus", "none", "unknown"
  std::string type;                   // "HDR InfiniBand", "Slingshot-11"
  std::optional<Quantity> nics;       // of a node
  std::optional<Quantity> bandwidth;  // GB/s of one NIC, per direction
  std::vector<std::int64_t> owners;   // rank of the node that each NIC is attached to; empty: not known
  std::vector<std::pair<std::string, Quantity>>
      shape;  // "groups", "nodes per group", "links per pair of groups"
};

/// Channels that a library's search gives a ring, a tree or NVLS, where it is known: they win over derived
/// ones.
struct GraphFact {
  std::string pattern;  // "ring" (and tree) or "nvls"
  bool several_nodes = false;
  Quantity channels;
  Quantity speed;  // GB/s of one channel
};

/// Times that were measured, of one size each, ascending; never falling.
struct Knots {
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;
  std::vector<std::int64_t> bytes;
  std::vector<double> us;
};

/// What a calibration knows of one operation under one algorithm and protocol.
struct PairFit {
  CommKind op = CommKind::other;
  std::string algorithm;  // "ring", "nvls", "p2p", an MPI algorithm; "any": whatever the library chose
  std::string protocol;   // "LL", "LL128", "Simple"; "any"
  bool several_nodes = false;
  std::array<double, 6> coefficients{};  // of cost/form.hpp
  std::int64_t rows = 0;
  std::vector<Knots> knots;
};

/// Coefficients fitted to measured times of one library.
struct Calibration {
  std::string library;  // "nccl", "rccl", "mpi"
  std::string version;
  std::string source;
  char confidence = 'M';
  std::string shape_from;  // the machine that a dependence on the number of ranks was taken from; empty: none
  std::vector<PairFit> pairs;
  /// Of log(measured / predicted) by range of sizes (cost/form.hpp), of cross-validation: for ranks and nodes
  /// that were measured, and for numbers of nodes between those.
  std::array<double, 5> spread{};
  std::array<double, 5> spread_of_nodes{};
};

/// A GPU or NIC on a node's PCI bus.
struct HostDevice {
  std::string name;                       // of the operating system, or vendor and device numbers
  std::string kind;                       // "gpu", "nic"
  std::string address;                    // "0000:1b:00.0"
  std::optional<Quantity> numa_node;      // that it is attached to
  std::optional<Quantity> pci_bandwidth;  // GB/s of its slot, per direction
  std::optional<Quantity> bandwidth;      // GB/s of a NIC's port, per direction
};

/// What a node has besides its ranks; commlens doctor writes it.
struct Host {
  std::string cpu;
  std::optional<Quantity> sockets;
  std::optional<Quantity> numa_nodes;
  std::optional<Quantity> cores;
  std::optional<Quantity> memory;  // GiB
  std::vector<HostDevice> devices;
};

/// A machine: what its ranks are, how they reach each other, what was measured on it.
struct Machine {
  std::string name;
  std::string title;
  std::vector<std::string> devices;  // how sweeps name it or its processor: "A100-SXM4-80GB"
  std::optional<Quantity> nodes;
  Quantity ranks_per_node;
  CpuVendor cpu = CpuVendor::other;
  Processor processor;
  ScaleUp up;
  ScaleOut out;
  std::vector<GraphFact> graph;
  std::optional<Quantity> rccl_model;  // which of RCCL's tuning models it takes
  std::optional<Host> host;
  std::string borrows;  // a machine whose calibrations stand in where this one has none
  std::vector<Calibration> calibrations;
};

/// Fields without a number that times of collectives need: "scale_up.bandwidth", "scale_out.nics". Where a
/// node, or the whole machine, has one rank, nothing is sent there.
std::vector<std::string> missing_numbers(const Machine& machine);

}  // namespace commlens
