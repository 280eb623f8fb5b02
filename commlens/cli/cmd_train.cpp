#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/cli/command.hpp"
#include "commlens/cli/train_flags.hpp"
#include "commlens/cli/train_run.hpp"

namespace commlens {
namespace {

constexpr const char* k_train_examples = R"(Examples:
  commlens train 19M --ranks 4 --zero 3 --seq 128 --vocab 256 --data book.txt
  commlens train 19M --tp 2 --pp 2 --micro-batches 4 --dtype fp32 --format json
  mpirun -n 4 commlens train 125M --tp 2 --seq 512 --transport mpi
Exit code: 0 done, 1 prediction and recording differ, 2 bad input, 3 a rank or the machine failed.)";

Result<ExitCode> train(Console& console, const TrainFlags& flags) {
  const Result<void> consistent = check_flags(flags);
  return consistent ? run_training(console, flags) : tl::unexpected(consistent.error());
}

}  // namespace

Action declare_train(CLI::App& verb) {
  const auto flags = std::make_shared<TrainFlags>();
  verb.footer(k_train_examples);
  flags->declare(verb);
  return [flags](Console& console) { return train(console, *flags); };
}

}  // namespace commlens
