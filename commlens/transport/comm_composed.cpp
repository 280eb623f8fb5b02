#include "commlens/transport/comm_composed.hpp"

#include <cstddef>
#include <utility>

namespace commlens {
namespace {

class ComposedCommunicator final : public Communicator {
 public:
  explicit ComposedCommunicator(std::unique_ptr<Communicator> below) : below_(std::move(below)) {}

  const std::vector<Rank>& members() const override { return below_->members(); }
  GroupRank rank() const override { return below_->rank(); }
  bool makes_progress() const override { return below_->makes_progress(); }
  bool starting_pays() const override { return below_->starting_pays(); }
  std::unique_ptr<Work> start(const CommCall& call) override { return below_->start(call); }
  std::unique_ptr<Work> start_group(std::span<const CommCall> calls) override {
    return below_->start_group(calls);
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    return below_->split(color, key);
  }
  void abort(std::string_view reason) override { below_->abort(reason); }

  void run(const CommCall& call) override {
    const Elements shard{call.input.value / size()};
    if (call.kind != CommKind::all_reduce || shard.value == 0) {
      below_->run(call);
      return;
    }
    const Elements whole = shard * size();
    scratch_.resize(static_cast<std::size_t>((shard * call.dtype).value));
    CommCall part = call;
    part.kind = CommKind::reduce_scatter;
    part.input = whole;
    part.output_buffer = scratch_.data();
    part.output = shard;
    below_->run(part);
    part.kind = CommKind::all_gather;
    part.input_buffer = scratch_.data();
    part.input = shard;
    part.output_buffer = call.output_buffer;
    part.output = whole;
    below_->run(part);
    if (const Elements rest = call.input - whole; rest.value > 0) {
      const auto done = static_cast<std::ptrdiff_t>((whole * call.dtype).value);
      part = call;
      part.input_buffer = static_cast<const std::byte*>(call.input_buffer) + done;
      part.output_buffer = static_cast<std::byte*>(call.output_buffer) + done;
      part.input = rest;
      part.output = rest;
      below_->run(part);
    }
  }

 private:
  std::unique_ptr<Communicator> below_;
  std::vector<std::byte> scratch_;  // this rank's sums
};

}  // namespace

std::unique_ptr<Communicator> composed(std::unique_ptr<Communicator> below) {
  return std::make_unique<ComposedCommunicator>(std::move(below));
}

}  // namespace commlens
