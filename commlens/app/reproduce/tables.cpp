// Tables I and II.
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <sys/utsname.h>

#include "commlens/app/doctor_machine.hpp"
#include "commlens/app/reproduce/items.hpp"
#include "commlens/app/version.hpp"
#include "commlens/base/modules.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens::study {
namespace {

struct Symbol {
  const char* letter;
  const char* meaning;
  const char* flag;
};

constexpr Symbol k_printed[] = {{"a", "attention heads", "--heads"},
                                {"b", "sequences of a micro-batch", "--micro-batch"},
                                {"h", "width of the model", "--hidden"},
                                {"L", "transformer layers", "--layers"},
                                {"d", "data-parallel ranks; the paper calls all devices so", "--dp"},
                                {"s", "tokens of a sequence", "--seq"},
                                {"t", "tensor-parallel ranks", "--tp"},
                                {"V", "tokens of the vocabulary, padded", "--vocab"},
                                {"p", "pipeline stages", "--pp"}};
constexpr Symbol k_added[] = {{"dp", "data-parallel ranks, where d means all devices", "--dp"},
                              {"M", "micro-batches of an optimizer step", "--micro-batches"},
                              {"v", "parts of the model that a stage has", "--virtual-stages"},
                              {"c", "context-parallel ranks", "--cp"},
                              {"ep", "expert-parallel ranks", "--ep"},
                              {"k", "experts of a token", ""},
                              {"P", "parameters", ""},
                              {"g", "ranks that share a copy of the parameters", "--hpz"}};

/// "8 count of …": a number of a machine file with its unit.
std::string text_of(const std::optional<Quantity>& quantity) {
  return quantity ? fmt::format("{:.3g} {}", quantity->value, quantity->unit) : "not known";
}

}  // namespace

ItemResult variable_names(Study&) {
  Sheet sheet({Column{"what", "symbol"}, Column{"value", "meaning"}, Column{"flag", "flag"}});
  for (const Symbol& symbol : k_printed) {
    sheet.add({symbol.letter, symbol.meaning, symbol.flag},
              {"Table I", Evidence::exact, "the paper's table"});
  }
  for (const Symbol& symbol : k_added) {
    sheet.add({symbol.letter, symbol.meaning, symbol.flag},
              {"added", Evidence::exact, "letters that corrected equations need beside the paper's"});
  }
  return Item{whole_of(sheet, "Names of variables, and the flag of each.",
                       {FigureKind::table, {}, {"evidence", "provenance"}}),
              {}};
}

ItemResult setups(Study&) {
  Sheet sheet(
      {"what", Column{"value", "the paper"}, Column{"corrected", "described or corrected"}, "this_machine"});
  const Result<Machine> frontier = find_machine(k_machine);
  const Result<Machine> here = machine_here();
  const Series series{"Table II", Evidence::exact,
                      "the paper's table, the machine file of Frontier and what this machine says of itself"};
  const auto add = [&](const char* what, const std::string& paper, const std::string& now,
                       const std::string& mine) { sheet.add({what, paper, now, mine}, series); };
  std::string cpu = "not known";
  std::string processor = "not known";
  std::string nics = "not known";
  std::string memory = "not known";
  if (here) {
    cpu = here->host
              ? fmt::format("{}, {} cores", here->host->cpu, here->host->cores ? here->host->cores->value : 0)
              : cpu;
    processor = here->host && here->processor.name == here->host->cpu ? "none" : here->processor.name;
    memory = here->host ? text_of(here->host->memory) : memory;
    nics = here->out.nics ? fmt::format("{}, NICs: {:g}", here->out.type, here->out.nics->value) : "none";
  } else {
    cpu = fmt::format("{} threads of hardware", std::thread::hardware_concurrency());
  }
  utsname system{};
  uname(&system);
  add("processor", "AMD Epyc 7713 \"Trento\", 64 cores, 2 GHz",
      "AMD EPYC 7A53: that is the Trento; 7713 is another one", cpu);
  add("accelerators", "4 AMD MI250X",
      frontier
          ? fmt::format("8 ranks: {}; {} each", frontier->processor.name, text_of(frontier->processor.memory))
          : "",
      processor);
  add("memory of the node", "", "", memory);
  add("interconnect", "HPE Slingshot 11, 4 NICs a node",
      frontier ? fmt::format("{}, {} of {} per direction", frontier->out.type, text_of(frontier->out.nics),
                             text_of(frontier->out.bandwidth))
               : "",
      nics);
  add("between accelerators", "AMD Infinity Fabric", "links of 50, 100 and 200 GB/s, Figure 6",
      "threads of a process");
  add("software", "ROCm 5.6.0, PyTorch 2.1.2", "", fmt::format("{} {}", system.sysname, system.release));
  add("trainer", "GPT-NeoX 4bc667031d8 on DeepSpeed 0.14", "the rules of both, at these versions",
      fmt::format("commlens {}{}", k_version,
                  module_file("libcommlens-engine.so") ? " on LibTorch" : ", LibTorch is not here"));
  add("data", "enwik8, a vocabulary of 50,304",
      "50,304 is padded for t = 1; 50,432, 50,688 and 51,200 for t = 2, 4, 8", "tokens made by the program");
  return Item{
      whole_of(sheet, "What the paper's numbers were made with, what is known of it, and what is here.",
               {FigureKind::table, {}, {"series", "evidence", "provenance"}}),
      {}};
}

}  // namespace commlens::study
