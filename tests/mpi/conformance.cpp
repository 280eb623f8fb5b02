// One rank of an MPI job that runs the checks of every transport: mpi_conformance
// [progress|algorithms|mixed]; algorithms: those of each kind of call with each algorithm of the library;
// mixed: all of them over a table that gives large calls another algorithm. Exit 0: all of it passed; 2: no
// MPI; else failed.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/comm_mixed.hpp"
#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/mpi_world.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr std::array k_kinds{CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter,
                             CommKind::all_to_all, CommKind::broadcast,  CommKind::reduce,
                             CommKind::barrier};

/// One failure ends the job: the other ranks may wait in a call that this one does not make.
void check_case(Communicator& world, const conformance::Case& one, const std::string& title) {
  try {
    one.check(world, conformance::Target{});
  } catch (const conformance::Failure& failure) {
    world.abort(fmt::format("{}: {}", title, failure.what()));
  } catch (const SystemError& error) {
    world.abort(fmt::format("{}: {}", title, error.what()));
  }
}

int run_cases(Communicator& world) {
  int checked = 0;
  for (const conformance::Case& one : conformance::k_cases) {
    if (world.size() >= one.ranks) {
      check_case(world, one, std::string(one.name));
      ++checked;
    }
  }
  if (world.rank() == GroupRank{0}) {
    fmt::print("{} of {} checks passed on {} ranks\n", checked, conformance::k_cases.size(), world.size());
  }
  return 0;
}

/// Whether a case is of calls of one kind: "AllReduceInPlace" of all_reduce.
bool is_of(const conformance::Case& one, CommKind kind) {
  std::string word;
  bool starts = true;
  for (const char letter : name_of(kind)) {
    word += starts ? static_cast<char>(letter - 'a' + 'A') : letter;
    starts = letter == '_';
  }
  std::erase(word, '_');
  return std::string_view(one.name).starts_with(word);
}

int run_algorithms(Communicator& world) {
  int algorithms = 0;
  int checked = 0;
  for (const CommKind kind : k_kinds) {
    for (const std::string& name : world.algorithms(kind)) {
      const auto chosen = world.with_algorithm(kind, name);
      if (!chosen) {
        world.abort(chosen.error().message);
      }
      ++algorithms;
      for (const conformance::Case& one : conformance::k_cases) {
        if (is_of(one, kind)) {
          check_case(**chosen, one, fmt::format("{} with {}", one.name, name));
          ++checked;
        }
      }
    }
  }
  if (world.rank() == GroupRank{0}) {
    fmt::print("{} checks of {} algorithms passed on {} ranks\n", checked, algorithms, world.size());
  }
  return algorithms > 0 && checked >= algorithms && !world.with_algorithm(CommKind::all_reduce, "magic") ? 0
                                                                                                         : 1;
}

int run_mixed(std::unique_ptr<Communicator> world) {
  TransportTable table;
  for (const CommKind kind : k_kinds) {
    const std::vector<std::string> names = world->algorithms(kind);
    if (!names.empty()) {
      table.entries.push_back(
          {.kind = kind, .least = Bytes{1000}, .transport = "mpi", .algorithm = names.front()});
    }
  }
  auto both = mixed(std::move(world), "mpi", table);
  if (!both) {
    fmt::print(stderr, "{}\n", both.error().message);
    return 1;
  }
  return table.entries.empty() ? 1 : run_cases(**both);
}

int with_algorithms(bool mixes) {
  auto opened = open_tunable_mpi_world("");
  if (!opened) {
    fmt::print(stderr, "{}\n", opened.error().message);
    return 2;
  }
  return mixes ? run_mixed(std::move(opened->world)) : run_algorithms(*opened->world);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "algorithms" || mode == "mixed") {
    return with_algorithms(mode == "mixed");
  }
  const bool wants_progress = mode == "progress";
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
