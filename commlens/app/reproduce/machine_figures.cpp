// Figures 1, 2 and 6: the paper's machine.
#include <optional>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens::study {
namespace {

constexpr std::int64_t k_tensor_ranks = 8;
constexpr std::int64_t k_devices[] = {16, 32, 64, 128, 256, 512};

/// A part of an iteration: its time, and what theory has of it: the calls of rank 0, or its operations.
struct PartOfIteration {
  std::string name;
  Estimate time;
  Cell exposed = {};
  std::optional<OpTotal> sent = {};
  Cell flops = {};
};

void add_part(Sheet& sheet, std::int64_t devices, const PartOfIteration& part, double whole,
              const Series& series) {
  const auto of_calls = [&](const auto& member) { return part.sent ? Cell(member(*part.sent)) : Cell(); };
  sheet.add({"", fmt::format("{} GCDs", devices), devices, part.name, part.time.value, part.time.low,
             part.time.high, part.exposed, whole > 0 ? Cell(part.time.value / whole) : Cell(),
             of_calls([](const OpTotal& sent) { return sent.calls; }),
             of_calls([](const OpTotal& sent) { return sent.message; }),
             of_calls([](const OpTotal& sent) { return sent.wire; }), part.flops},
            series);
}

/// Calls of rank 0 of one op along one axis, over groups of more than one rank.
std::optional<OpTotal> sent_by(const std::vector<OpTotal>& totals, const SimulatedCalls& calls) {
  std::optional<OpTotal> sum;
  for (const OpTotal& total : totals) {
    if (total.op == calls.op && total.axis == calls.axis && total.group_size > 1) {
      sum = sum.value_or(OpTotal{total.op, total.axis, total.group_size, 0, {}, {}, {}});
      sum->calls += total.calls;
      sum->message += total.message;
      sum->wire += total.wire;
    }
  }
  return sum;
}

void add_devices(Sheet& sheet, const std::string& model, std::int64_t devices, Study& study,
                 std::vector<std::string>& notes) {
  const Degrees degrees{.dp = devices / k_tensor_ranks, .tp = k_tensor_ranks, .zero = 1};
  const Result<SimulatedJob>& job = study.simulation(model, k_neox, degrees);
  const Result<Plan> plan = study.plan(model, k_neox, degrees);
  if (!job || !plan) {
    notes.push_back(fmt::format("{} GCDs: {}.", devices, job ? plan.error().message : job.error().message));
    return;
  }
  const Simulation& simulation = job->simulation;
  double whole = simulation.compute.value;
  for (const SimulatedCalls& calls : simulation.calls) {
    whole += calls.moving.value;
  }
  const Series series = simulated_series(*job);
  add_part(sheet, devices,
           {.name = "computing",
            .time = simulation.compute,
            .flops = plan->flops_per_rank(plan->steady_iteration()).value},
           whole, series);
  const std::vector<OpTotal> totals = steady_totals(*plan);
  for (const SimulatedCalls& calls : simulation.calls) {
    add_part(sheet, devices,
             {.name = fmt::format("{} {}", name_of(calls.op), calls.axis.name()),
              .time = calls.moving,
              .exposed = calls.exposed.value,
              .sent = sent_by(totals, calls)},
             whole, series);
  }
}

ItemResult zero1_time(Study& study, const std::string& model) {
  Sheet sheet({"panel", "setting", "rank_count", "part", "time_s", "low_s", "high_s", "exposed_s",
               Column{"part_share", "share"}, "calls_per_rank", "message_bytes_per_rank",
               "wire_bytes_per_rank", "flops_per_rank"});
  std::vector<std::string> refused;
  for (const std::int64_t devices : k_devices) {
    add_devices(sheet, model, devices, study, refused);
  }
  if (sheet.empty()) {
    return no_figure(refused.empty() ? "nothing could be simulated" : refused.front());
  }
  Item item{
      whole_of(
          sheet,
          fmt::format("One iteration of {} with ZeRO-1 over the data ranks and 8-way tensor parallelism, by "
                      "number of GCDs: computing, and every operation's calls one after the other. The "
                      "paper's runs were logged, and the logger ends every call before the next step "
                      "begins, so nothing overlaps; exposed_s has what would show without the logger.",
                      model),
          {FigureKind::bars,
           bar_options("setting", "part", true, {"time_s", "part_share", "wire_bytes_per_rank"}),
           {"panel", "exposed_s", "provenance"}}),
      {}};
  item.whole.notes.insert(item.whole.notes.end(), refused.begin(), refused.end());
  item.whole.notes.emplace_back(
      "The paper shows no numbers of this figure. Times are the simulation's, each with its 90 % interval; "
      "calls, bytes and floating-point operations of rank 0 are exact, by the rules of GPT-NeoX on DeepSpeed "
      "0.14.0.");
  return item;
}

}  // namespace

ItemResult zero1_time_13b(Study& study) { return zero1_time(study, "13B"); }
ItemResult zero1_time_20b(Study& study) { return zero1_time(study, "20B"); }

ItemResult node_topology(Study&) {
  const Result<Machine> machine = find_machine(k_machine);
  if (!machine) {
    return no_figure(machine.error().message);
  }
  Sheet sheet({"source_rank", "destination_rank", "part", "link_bytes_per_s"});
  constexpr double giga = 1e9;
  for (const LinkClass& links : machine->up.classes) {
    const Series series{fmt::format("{} links", links.name), Evidence::exact,
                        fmt::format("the machine file {}: {} (confidence {})", machine->name,
                                    links.bandwidth.source, links.bandwidth.confidence)};
    for (const auto& [from, to] : links.pairs) {
      sheet.add({from, to, links.name, links.bandwidth.value * giga}, series);
      sheet.add({to, from, links.name, links.bandwidth.value * giga}, series);
    }
  }
  Item item{
      whole_of(
          sheet,
          fmt::format("A node of {}: {} ranks ({}), the links between them, bytes per second and direction. "
                      "Pairs without a cell have no link of their own.",
                      machine->title, machine->ranks_per_node.value, machine->processor.name),
          {FigureKind::matrix,
           {{"source", std::string("source_rank")},
            {"destination", std::string("destination_rank")},
            {"toggles", std::vector<std::string>{"link_bytes_per_s"}}},
           {"provenance"}}),
      {}};
  if (machine->out.nics && machine->out.bandwidth) {
    std::string owners;
    for (const std::int64_t owner : machine->out.owners) {
      owners += fmt::format("{}{}", owners.empty() ? "" : ", ", owner);
    }
    item.whole.notes.push_back(
        fmt::format("{} NICs ({}) of {:g} {} each per direction, attached to ranks {}; {}.",
                    machine->out.nics->value, machine->out.type, machine->out.bandwidth->value,
                    machine->out.bandwidth->unit, owners, machine->out.bandwidth->source));
  }
  if (machine->processor.memory) {
    item.whole.notes.push_back(fmt::format("Each rank has {:g} {} of memory; {}.",
                                           machine->processor.memory->value, machine->processor.memory->unit,
                                           machine->processor.memory->source));
  }
  return item;
}

}  // namespace commlens::study
