#include "commlens/transport/comm_threads.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/transport/comm_composed.hpp"
#include "commlens/transport/thread_exchange.hpp"

namespace commlens {
namespace {

class ThreadWork final : public Work {
 public:
  ThreadWork(std::shared_ptr<ThreadGroup> group, const ThreadGroup::Part& part)
      : group_(std::move(group)), part_(part) {}
  ThreadWork(const ThreadWork&) = delete;
  ThreadWork& operator=(const ThreadWork&) = delete;

  ~ThreadWork() override {
    if (part_.slot == nullptr) {
      return;
    }
    // An exception destroys the buffers: other ranks must not use them after this.
    const bool unwinds = std::uncaught_exceptions() > 0;
    if (unwinds ? group_->complete_or_withdraw(part_) : group_->complete(part_)) {
      group_->release(*part_.slot);
    }
  }

  void wait() override {
    if (part_.slot != nullptr) {
      const ThreadGroup::Part part = std::exchange(part_, {});
      if (group_->complete(part)) {
        leave(part);
      }
    }
    group_->job().throw_if_ended();
  }

  bool is_complete() override {
    if (part_.slot != nullptr && group_->advance(part_)) {
      leave(std::exchange(part_, {}));
    }
    group_->job().throw_if_ended();
    return part_.slot == nullptr;
  }

  std::optional<MovedTimes> moved() const override { return moved_; }

 private:
  void leave(const ThreadGroup::Part& part) {
    moved_ = ThreadGroup::moved(*part.slot);
    group_->release(*part.slot);
  }

  std::shared_ptr<ThreadGroup> group_;
  ThreadGroup::Part part_;  // until the call is complete
  std::optional<MovedTimes> moved_;
};

/// The work of a group of one rank, or of a completed call.
class DoneWork final : public Work {
 public:
  explicit DoneWork(const MovedTimes& moved) : moved_(moved) {}
  void wait() override {}
  bool is_complete() override { return true; }
  std::optional<MovedTimes> moved() const override { return moved_; }

 private:
  MovedTimes moved_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, GroupRank self)
      : group_(std::move(group)), self_(self) {}
  ThreadCommunicator(const ThreadCommunicator&) = delete;
  ThreadCommunicator& operator=(const ThreadCommunicator&) = delete;

  ~ThreadCommunicator() override {
    if (std::uncaught_exceptions() == 0) {
      group_->leave(self_);
    }
  }

  const std::vector<Rank>& members() const override { return group_->members(); }
  GroupRank rank() const override { return self_; }
  bool makes_progress() const override { return group_->job().assistants() != nullptr; }

  std::unique_ptr<Work> start(const CommCall& call) override {
    if (members().size() == 1) {
      const std::int64_t started_ns = Clock::of_process().now_ns();
      perform_alone(call);
      return std::make_unique<DoneWork>(MovedTimes{started_ns, Clock::of_process().now_ns()});
    }
    return std::make_unique<ThreadWork>(group_, group_->post(self_, call));
  }

  void run(const CommCall& call) override {
    if (members().size() == 1) {
      perform_alone(call);
      return;
    }
    ThreadWork(group_, group_->post(self_, call)).wait();
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    struct SplitRequest {
      std::int64_t color = 0;
      std::int64_t key = 0;
    };
    const SplitRequest own{color, key};
    std::vector<SplitRequest> requests(members().size());
    constexpr std::int64_t k_numbers = 2;
    run({.kind = CommKind::all_gather,
         .dtype = DType::int64,
         .input_buffer = &own,
         .output_buffer = requests.data(),
         .input = {k_numbers},
         .output = {k_numbers * size()},
         .tag = "split"});
    const std::int64_t number = splits_++;
    if (color < 0) {
      return nullptr;
    }
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].color == color) {
        chosen.push_back(i);
      }
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](std::size_t a, std::size_t b) { return requests[a].key < requests[b].key; });
    std::vector<Rank> ranks;
    for (const std::size_t i : chosen) {
      ranks.push_back(members()[i]);
    }
    const auto place = std::find(chosen.begin(), chosen.end(), static_cast<std::size_t>(self_.value));
    return thread_communicator(group_->subgroup(number, color, ranks), GroupRank{place - chosen.begin()});
  }

  std::vector<std::string> algorithms(CommKind kind) const override {
    return kind == CommKind::all_reduce && size() > 1
               ? std::vector<std::string>{std::string(k_composed_algorithm)}
               : std::vector<std::string>();
  }

  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& algorithm) override {
    return kind == CommKind::all_reduce && size() > 1 && algorithm == k_composed_algorithm
               ? composed(split(0, self_.value))
               : Communicator::with_algorithm(kind, algorithm);
  }

  void abort(std::string_view reason) override {
    const std::string text(reason);
    group_->job().end(
        {.rank = members()[static_cast<std::size_t>(self_.value)], .message = text, .reason = text});
  }

 private:
  void perform_alone(const CommCall& call) const {
    group_->job().throw_if_ended();
    throw_fault_of(call, self_, 1);
    Exchange exchange(1);
    exchange.post(0, call, true);
    const std::int64_t pieces = exchange.cut(1);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      exchange.perform(piece);
    }
  }

  std::shared_ptr<ThreadGroup> group_;
  GroupRank self_;
  std::int64_t splits_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> thread_communicator(std::shared_ptr<ThreadGroup> group, GroupRank self) {
  return std::make_unique<ThreadCommunicator>(std::move(group), self);
}

}  // namespace commlens
