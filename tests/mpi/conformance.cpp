// One rank of an MPI job that runs the checks of every transport: mpi_conformance [progress]. Exit 0: all of
// it passed; 2: no MPI; else failed.
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/mpi_world.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

/// One failure ends the job: the other ranks may wait in a call that this one does not make.
int run_cases(Communicator& world) {
  const conformance::Target host_memory;
  int checked = 0;
  for (const conformance::Case& one : conformance::k_cases) {
    if (world.size() < one.ranks) {
      continue;
    }
    try {
      one.check(world, host_memory);
    } catch (const conformance::Failure& failure) {
      world.abort(fmt::format("{}: {}", one.name, failure.what()));
    } catch (const SystemError& error) {
      world.abort(fmt::format("{}: {}", one.name, error.what()));
    }
    ++checked;
  }
  if (world.rank() == GroupRank{0}) {
    fmt::print("{} of {} checks passed on {} ranks\n", checked, conformance::k_cases.size(), world.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool wants_progress = argc > 1 && std::string_view(argv[1]) == "progress";
  auto world = commlens::open_mpi_world("", wants_progress);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 2;
  }
  if ((*world)->makes_progress() != wants_progress) {
    fmt::print(stderr, "this MPI cannot be used by several threads at once\n");
    return 1;
  }
  return run_cases(**world);
}
