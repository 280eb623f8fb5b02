// One rank of a job whose messages are counted (obeyed_rules.sh over Open MPI, obeyed_mpich_rules.sh):
// tuned_job MODE [FILE | RANKS CALLS]. Exit 0: made its calls; 2: no MPI; else failed.
//   chosen FILE  every algorithm of every kind, on half the ranks and on all, each at a size of its own;
//                writes FILE with the rules for these sizes
//   plain        the same calls, by Open MPI's choice
//   around       calls of other sizes, and on other numbers of ranks
//   all-reduce RANKS CALLS  so many of 4 MiB on the first RANKS ranks
// Without MPI, tuned_job write-mpich FILE WHICH RANKS: MPICH's rules for the messages of every_collective.cpp
// on RANKS ranks, and an all_reduce of 4 MiB, with the first, second or third algorithm of each kind; WHICH
// -1: without rules.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/transport/mpi_world.hpp"
#include "commlens/tune/rules.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr std::array k_kinds{CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter,
                             CommKind::all_to_all, CommKind::broadcast,  CommKind::reduce,
                             CommKind::barrier};
constexpr std::int64_t k_multiple = 840;  // of 1 to 8

/// Floats of a message that only this algorithm is tried with.
std::int64_t elements_of(std::size_t algorithm) {
  return (40 + static_cast<std::int64_t>(algorithm)) * k_multiple;
}

class Caller {
 public:
  explicit Caller(std::int64_t most)
      : in_(static_cast<std::size_t>(most)), out_(static_cast<std::size_t>(most)) {}

  /// A call with a message of so many floats, where the kind has one.
  void call(Communicator& group, CommKind kind, std::int64_t elements) {
    if (kind == CommKind::barrier) {
      return group.barrier();
    }
    const Elements whole{elements};
    const Elements part{elements / group.size()};
    group.run({.kind = kind,
               .dtype = DType::fp32,
               .input_buffer = in_.data(),
               .output_buffer = out_.data(),
               .input = kind == CommKind::all_gather ? part : whole,
               .output = kind == CommKind::reduce_scatter ? part : whole});
  }

 private:
  std::vector<float> in_;
  std::vector<float> out_;
};

/// The first `ranks` ranks; null on the others.
std::unique_ptr<Communicator> first_ranks(Communicator& world, std::int64_t ranks) {
  return world.split(world.rank().value < ranks ? 0 : -1, world.rank().value);
}

/// Each algorithm a number of times of its own, so that two wrong ones do not make up for each other.
void call_all(Communicator& world, Caller& caller, bool chosen, std::vector<tune::Rule>& rules) {
  for (const std::int64_t ranks : {world.size() / 2, world.size()}) {
    const std::unique_ptr<Communicator> group = first_ranks(world, ranks);
    std::size_t number = 0;
    for (const CommKind kind : k_kinds) {
      const std::vector<std::string> names =
          group == nullptr ? std::vector<std::string>() : group->algorithms(kind);
      for (std::size_t at = 0; at < names.size(); ++at, ++number) {
        // Made either way: making it sends messages too.
        const auto own = group->with_algorithm(kind, names[at]);
        const std::int64_t elements = elements_of(at);
        if (kind == CommKind::barrier && at + 1 < names.size()) {
          continue;  // all barriers have one size
        }
        for (std::size_t time = 0; time <= number; ++time) {
          caller.call(chosen ? **own : *group, kind, elements);
        }
        const Bytes message = Elements{kind == CommKind::barrier ? 0 : elements} * DType::fp32;
        rules.push_back({.kind = kind, .ranks = ranks, .message = message, .algorithm = names[at]});
      }
    }
  }
}

void call_around(Communicator& world, Caller& caller) {
  constexpr std::size_t k_most_algorithms = 9;
  for (std::int64_t ranks = 2; ranks < world.size(); ++ranks) {
    if (ranks == world.size() / 2) {
      continue;
    }
    const std::unique_ptr<Communicator> group = first_ranks(world, ranks);
    for (const CommKind kind : k_kinds) {
      for (std::size_t at = 0; at < k_most_algorithms && group != nullptr; ++at) {
        caller.call(*group, kind, elements_of(at));
      }
    }
  }
  for (const std::int64_t ranks : {world.size() / 2, world.size()}) {
    const std::unique_ptr<Communicator> group = first_ranks(world, ranks);
    for (std::size_t at = 0; at < k_most_algorithms && group != nullptr; ++at) {
      for (const std::int64_t beside : {-ranks, ranks}) {
        for (const CommKind kind : k_kinds) {
          if (kind != CommKind::barrier) {
            caller.call(*group, kind, elements_of(at) + beside);
          }
        }
      }
    }
  }
}

constexpr std::int64_t k_largest = 1 << 20;  // floats: 4 MiB

int write_mpich(const std::string& file, std::int64_t which, std::int64_t ranks) {
  constexpr std::int64_t k_bytes = 4000;  // of a part in every_collective.cpp
  struct Kind {
    CommKind kind;
    std::int64_t parts;
    std::array<std::string, 3> algorithms;
  };
  const std::array<Kind, 6> kinds{
      {{CommKind::all_reduce,
        1,
        {"recursive_doubling", "reduce_scatter_allgather", "reduce_scatter_allgather"}},
       {CommKind::all_gather, ranks, {"brucks", "ring", "recursive_doubling"}},
       {CommKind::reduce_scatter, ranks, {"recursive_doubling", "pairwise", "recursive_halving"}},
       {CommKind::all_to_all, ranks, {"brucks", "pairwise", "scattered"}},
       {CommKind::broadcast,
        1,
        {"binomial", "scatter_ring_allgather", "scatter_recursive_doubling_allgather"}},
       {CommKind::reduce, 1, {"binomial", "reduce_scatter_gather", "reduce_scatter_gather"}}}};
  std::vector<tune::Rule> rules;
  for (const Kind& kind : kinds) {
    if (which >= 0) {
      rules.push_back({.kind = kind.kind,
                       .ranks = ranks,
                       .message = Bytes{k_bytes * kind.parts},
                       .algorithm = kind.algorithms.at(static_cast<std::size_t>(which))});
    }
  }
  if (which >= 0) {
    rules.push_back(rules.front());
    rules.back().message = Elements{k_largest} * DType::fp32;
  }
  const auto text = tune::mpich_rules(rules);
  if (!text) {
    fmt::print(stderr, "{}\n", text.error().message);
    return 1;
  }
  write_file_atomically(file, *text);
  return 0;
}

Result<std::string> rules_for(const std::string& library, const std::vector<tune::Rule>& rules) {
  return library == "mpich"
             ? tune::mpich_rules(rules)
             : tune::open_mpi_rules(rules, {.machine = "", .versions = "", .date = "", .messages = ""});
}

int run_mode(const TunableMpiWorld& opened, std::string_view mode, const std::vector<std::string>& more) {
  Communicator& world = *opened.world;
  Caller caller(k_largest);
  std::vector<tune::Rule> rules;
  if (mode == "all-reduce" && more.size() == 2) {
    const std::unique_ptr<Communicator> group = first_ranks(world, std::stoll(more[0]));
    for (int call = 0; call < std::stoi(more[1]) && group != nullptr; ++call) {
      caller.call(*group, CommKind::all_reduce, k_largest);
    }
    return 0;
  }
  if (mode == "around") {
    call_around(world, caller);
    return 0;
  }
  if (mode != "plain" && (mode != "chosen" || more.size() != 1)) {
    return 1;
  }
  call_all(world, caller, mode == "chosen", rules);
  if (world.rank() == GroupRank{0} && mode == "chosen") {
    const auto text = rules_for(opened.library, rules);
    if (!text) {
      fmt::print(stderr, "{}\n", text.error().message);
      return 1;
    }
    write_file_atomically(more[0], *text);
    fmt::print("{} rules\n", rules.size());
  }
  return rules.empty() && world.rank() == GroupRank{0} ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "write-mpich") {
    return write_mpich(words[1], std::stoll(words[2]), std::stoll(words[3]));
  }
  auto opened = commlens::open_tunable_mpi_world("");
  if (!opened) {
    fmt::print(stderr, "{}\n", opened.error().message);
    return 2;
  }
  return words.empty() ? 1 : run_mode(*opened, words.front(), {words.begin() + 1, words.end()});
}
