#include "tests/bench/fault_transport.hpp"

#include <algorithm>
#include <utility>

namespace commlens::faults {
namespace {

std::span<std::byte> output_of(const CommCall& call) {
  return {static_cast<std::byte*>(call.output_buffer),
          call.output_buffer == nullptr ? 0 : static_cast<std::size_t>((call.output * call.dtype).value)};
}

/// A call whose fault comes when it was waited for.
class FaultyWork final : public Work {
 public:
  FaultyWork(std::unique_ptr<Work> work, std::function<void()> after)
      : work_(std::move(work)), after_(std::move(after)) {}

  void wait() override {
    work_->wait();
    if (const std::function<void()> after = std::exchange(after_, {})) {
      after();
    }
  }
  bool is_complete() override { return work_->is_complete(); }

 private:
  std::unique_ptr<Work> work_;
  std::function<void()> after_;
};

class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> communicator, Faults faults)
      : communicator_(std::move(communicator)), faults_(std::move(faults)) {}

  const std::vector<Rank>& members() const override { return communicator_->members(); }
  GroupRank rank() const override { return communicator_->rank(); }
  bool makes_progress() const override { return communicator_->makes_progress(); }
  bool starting_pays() const override { return communicator_->starting_pays(); }

  std::unique_ptr<Work> start(const CommCall& asked) override {
    if (asked.kind == CommKind::barrier) {
      return std::make_unique<FaultyWork>(communicator_->start(asked), faults_.after_barrier);
    }
    CommCall call = asked;
    if (faults_.before) {
      faults_.before(call);
    }
    if (faults_.issuing) {
      faults_.issuing(size(), call);
    }
    const std::span<std::byte> output = output_of(call);
    const std::vector<std::byte> earlier =
        faults_.after ? std::vector(output.begin(), output.end()) : std::vector<std::byte>();
    std::unique_ptr<Work> work = communicator_->start(call);
    if (faults_.issued) {
      faults_.issued(size(), call);
    }
    return std::make_unique<FaultyWork>(std::move(work), [this, call, output, earlier] {
      if (faults_.after) {
        faults_.after(call, output, earlier);
      }
      if (faults_.waited) {
        faults_.waited(size(), call);
      }
    });
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    std::unique_ptr<Communicator> part = communicator_->split(color, key);
    return part ? faulty(std::move(part), faults_) : nullptr;
  }
  void abort(std::string_view reason) override { communicator_->abort(reason); }

 private:
  std::unique_ptr<Communicator> communicator_;
  Faults faults_;
};

}  // namespace

std::unique_ptr<Communicator> faulty(std::unique_ptr<Communicator> communicator, Faults faults) {
  return std::make_unique<FaultyCommunicator>(std::move(communicator), std::move(faults));
}

void spin(std::chrono::nanoseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

}  // namespace commlens::faults
