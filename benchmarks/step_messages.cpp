// The time of those of a step's messages that a table of `tune --write-transports` has, by the library's
// choice, under mpirun:
//   step_messages ROUNDS TABLE MODEL [--dp N] [--zero N] [--layers N]…
// Prints one number on the first rank: the sum of calls x median, in seconds. tune_pays.sh compares it with
// and without the library's rules.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/app/layout_options.hpp"
#include "commlens/app/tune.hpp"
#include "commlens/transport/transport_table.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

/// Decorates a communicator: it has no algorithms, so that only the library's choice is timed.
class PlainCommunicator final : public Communicator {
 public:
  explicit PlainCommunicator(std::unique_ptr<Communicator> below) : below_(std::move(below)) {}
  const std::vector<Rank>& members() const override { return below_->members(); }
  GroupRank rank() const override { return below_->rank(); }
  std::unique_ptr<Work> start(const CommCall& call) override { return below_->start(call); }
  void run(const CommCall& call) override { below_->run(call); }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    auto part = below_->split(color, key);
    return part == nullptr ? nullptr : std::make_unique<PlainCommunicator>(std::move(part));
  }
  void abort(std::string_view reason) override { below_->abort(reason); }

 private:
  std::unique_ptr<Communicator> below_;
};

/// Of the ranks that `tune` weighs the step of.
double seconds_of(const TunedMessages& tuned, const TransportTable& table) {
  double seconds = 0;
  for (const TunedMessage& message : tuned.messages) {
    const bool has_rule = table.place_of(kind_of(message.timed.op), message.timed.bytes(),
                                         message.timed.ranks) < table.entries.size();
    seconds += has_rule ? message.calls_of_class.at(tuned.step_class) * message.decision.default_s : 0;
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc % 2 != 0) {
    fmt::print(stderr, "usage: step_messages ROUNDS TABLE MODEL [--FLAG VALUE]...\n");
    return 2;
  }
  LayoutValues values;
  for (int at = 4; at + 1 < argc; at += 2) {
    values[argv[at]] = argv[at + 1];
  }
  const Result<Overrides> overrides = overrides_of(values);
  const Result<TransportTable> table = read_transport_table(argv[2]);
  if (!overrides || !table) {
    fmt::print(stderr, "{}\n", overrides ? table.error().message : overrides.error().message);
    return 2;
  }
  TuneRequest request;
  request.messages.input = {argv[3]};
  request.messages.overrides = *overrides;
  request.transport = Transport::mpi;
  request.most_rounds = std::stoll(argv[1]);
  request.time = std::chrono::milliseconds(300);
  request.decorate = [](std::unique_ptr<Communicator> world) -> std::unique_ptr<Communicator> {
    return std::make_unique<PlainCommunicator>(std::move(world));
  };
  const Result<TuneResult> timed = tune_calls(request);
  if (!timed) {
    fmt::print(stderr, "{}\n", timed.error().message);
    return 2;
  }
  if (timed->reports) {
    fmt::print("{:.9f}\n", seconds_of(timed->tuned, *table));
  }
  return 0;
}
