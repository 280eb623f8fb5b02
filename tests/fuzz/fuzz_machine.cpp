// What the verbs about times read, by the program's name: machine files, tables of sweeps and logs of NCCL's
// tuning. What is accepted is used: a machine is written, read again and asked for times, a sweep is fitted.
#include <algorithm>
#include <array>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/machine/calibrate/calibrate.hpp"
#include "commlens/machine/cost/tuning_log.hpp"
#include "commlens/machine/machine_reader.hpp"
#include "commlens/machine/machines.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

using namespace commlens;

/// Times of a machine, where it has any, are numbers.
void ask_for_times(const Machine& machine, const std::vector<TunedPair>& tuning) {
  const auto ranks = static_cast<std::int64_t>(machine.ranks_per_node.value);
  for (const char* const library : {"nccl", "rccl", "mpi"}) {
    for (const CommKind op : {CommKind::all_reduce, CommKind::all_gather, CommKind::all_to_all}) {
      for (const std::int64_t nodes : {std::int64_t{1}, std::int64_t{2}}) {
        CostQuery query;
        query.machine = &machine;
        query.library.name = library;
        query.library.version = default_version(machine, library);
        query.call = {op, Bytes{1 << 20}, DType::fp16, {ranks * nodes, nodes}};
        query.tuning = tuning;
        const Result<CollectiveTime> time = collective_time(query);
        COMMLENS_CHECK(!time || time->us >= 0, "a time is a number that is not negative");
        COMMLENS_CHECK(!time || time->low_us <= time->high_us, "an interval has a lower and an upper end");
      }
    }
  }
}

void test_machine(std::string_view text) {
  const Result<Machine> machine = read_machine("input", text);
  if (!machine) {
    return;
  }
  const std::string written = machine_json(*machine);
  const Result<Machine> again = read_machine("written", written);
  COMMLENS_CHECK(again && machine_json(*again) == written, "a machine that was read survives writing");
  ask_for_times(*machine, {});
}

void test_sweep(std::string_view text) {
  constexpr std::size_t most_points = 200;  // more are as correct but take seconds
  is_sweep_csv(text);
  const Result<SweepFile> sweep = parse_sweep_csv("input", text);
  if (!sweep || sweep->points.size() > most_points) {
    return;
  }
  static const Machine machine = *find_machine("dgx_a100");
  const Result<CalibrationOutput> output = calibrated({machine, sweep->points, "input", "2.27.3", nullptr});
  if (output) {
    const Result<Machine> again = read_machine("written", machine_json(output->machine));
    COMMLENS_CHECK(again.has_value(), "a machine that was fitted can be read");
  }
}

void test_tuning(std::string_view text) {
  static const Machine machine = [] {
    Machine uncalibrated = *find_machine("dgx_h100");
    uncalibrated.calibrations.clear();  // which is faster to ask
    return uncalibrated;
  }();
  if (const Result<std::vector<TunedPair>> tuning = parse_tuning_log("input", text)) {
    ask_for_times(machine, *tuning);
  }
}

using TestOfText = void (*)(std::string_view);
constexpr std::array<std::pair<std::string_view, TestOfText>, 3> k_tests = {
    {{"machine_file", test_machine}, {"sweep_csv", test_sweep}, {"tuning_log", test_tuning}}};
TestOfText tested = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  const std::string name = fuzz_target_name(**argv);
  const auto found = std::ranges::find(k_tests, name, &std::pair<std::string_view, TestOfText>::first);
  COMMLENS_CHECK(found != k_tests.end(), "tests/fuzz/CMakeLists.txt names readers of this file only");
  tested = found->second;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  tested(as_text(bytes, size));
  return 0;
}
