#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/record.hpp"
#include "commlens/base/units.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr const char* k_record_examples = R"(Examples:
  commlens record -- mpirun -n 4 ./app
  commlens record -o run1 -- mpirun -n 4 python3 train.py
  mpirun -n 4 commlens record -- ./app
  srun -n 64 commlens record -o $SCRATCH/run1 -- ./app
  commlens record --ring -- srun python3 train.py
  commlens record --nccl profiler -- torchrun --nproc-per-node 8 train.py
The trace is written to the directory named by -o. Standard output is the program's; messages of commlens go to
standard error.
Exit code: that of the command (128 + the signal that ended it), 2 bad input, 3 it could not be started.)";

struct RecordFlags {
  std::string directory = "commlens-trace";
  std::string mpi;
  std::string nccl;
  std::int64_t ring = 0;
  bool call_sites = false;
  bool no_summary = false;
  std::vector<std::string> command;
};

/// Prints the size of a recording, how its iterations are known, and the cost of recording.
void show_job(Console& console, const RecordedJob& job, bool has_summary) {
  console.out << '\n';
  const auto start = std::chrono::steady_clock::now();
  if (has_summary) {
    run({"summary", job.directory.string()}, console);
    console.out << '\n';
  } else {
    console.out << fmt::format("{}: {}\n", job.directory.string(), job.extent);
  }
  const std::chrono::nanoseconds shown = std::chrono::steady_clock::now() - start;
  const std::string summed =
      has_summary ? fmt::format(", {} for this summary (--no-summary)", to_text(shown)) : "";
  console.out << wrapped(fmt::format("{}\n", job.iterations), console.style)
              << wrapped(job.cost, console.style)
              << wrapped(fmt::format("after the command: {} for iterations and totals{}\n",
                                     to_text(job.concluding), summed),
                         console.style)
              << std::flush;
}

Result<ExitCode> record_verb(Console& console, const RecordFlags& flags) {
  return record({.command = flags.command,
                 .directory = flags.directory,
                 .mpi = flags.mpi,
                 .nccl = flags.nccl,
                 .events = events_of(console),
                 .ring_records = flags.ring,
                 .call_sites = flags.call_sites})
      .map([&](const RecordResult& result) {
        // Standard output belongs to the program that was recorded.
        Console own{console.err, console.err, console.err_is_terminal ? console.style : TextStyle{}, false};
        for (const RecordedJob& job : result.jobs) {
          show_job(own, job, !flags.no_summary);
        }
        return static_cast<ExitCode>(result.exit_code);
      });
}

}  // namespace

Action declare_record(CLI::App& verb) {
  const auto flags = std::make_shared<RecordFlags>();
  verb.footer(k_record_examples);
  verb.add_option("-o,--output", flags->directory,
                  "Directory of the trace; replaces a trace that is there once something was recorded")
      ->capture_default_str()
      ->type_name("DIR");
  verb.add_option("--mpi", flags->mpi, "The program's MPI, where it cannot be seen: openmpi or mpich")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
  verb.add_option(
          "--nccl", flags->nccl,
          "Record NCCL or RCCL in place of MPI: through NCCL's profiler plug-ins (2.23 and later), light "
          "without times of the device, or by standing before either library")
      ->check(CLI::IsMember({"profiler", "profiler=light", "shim"}))
      ->excludes("--mpi");
  declare_ring(verb, flags->ring);
  verb.add_flag("--call-sites", flags->call_sites,
                "Record also where the program makes its calls, for summary --call-sites");
  verb.add_flag("--no-summary", flags->no_summary, "Say only where the trace is and what recording cost");
  verb.add_option("COMMAND", flags->command, "What to run, after --")->required();
  return [flags](Console& console) { return record_verb(console, *flags); };
}

}  // namespace commlens
