#include "commlens/transport/comm_threads.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/transport/thread_exchange.hpp"

namespace commlens {
namespace {

class ThreadWork final : public Work {
 public:
  ThreadWork(std::shared_ptr<ThreadGroup> group, ThreadGroup::Slot& slot)
      : group_(std::move(group)), slot_(&slot) {}
  ThreadWork(const ThreadWork&) = delete;
  ThreadWork& operator=(const ThreadWork&) = delete;

  ~ThreadWork() override {
    if (slot_ == nullptr) {
      return;
    }
    // An exception takes the buffers away: others may not use them after this.
    const bool unwinds = std::uncaught_exceptions() > 0;
    if (unwinds ? group_->complete_or_withdraw(*slot_) : group_->complete(*slot_)) {
      group_->release(*slot_);
    }
  }

  void wait() override {
    if (slot_ != nullptr) {
      ThreadGroup::Slot& slot = *std::exchange(slot_, nullptr);
      if (group_->complete(slot)) {
        group_->release(slot);
      }
    }
    group_->job().throw_if_ended();
  }

 private:
  std::shared_ptr<ThreadGroup> group_;
  ThreadGroup::Slot* slot_;  // until the call is complete
};

/// Of a group of one rank, or of a call that is over.
class DoneWork final : public Work {
 public:
  void wait() override {}
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

  std::unique_ptr<Work> start(const CommCall& call) override {
    if (members().size() == 1) {
      perform_alone(call);
      return std::make_unique<DoneWork>();
    }
    return std::make_unique<ThreadWork>(group_, group_->post(self_, call));
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    struct Wish {
      std::int64_t color = 0;
      std::int64_t key = 0;
    };
    const Wish own{color, key};
    std::vector<Wish> wishes(members().size());
    constexpr std::int64_t k_numbers = 2;
    run({.kind = CommKind::all_gather,
         .dtype = DType::int64,
         .input_buffer = &own,
         .output_buffer = wishes.data(),
         .input = {k_numbers},
         .output = {k_numbers * size()},
         .tag = "split"});
    const std::int64_t number = splits_++;
    if (color < 0) {
      return nullptr;
    }
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      if (wishes[i].color == color) {
        chosen.push_back(i);
      }
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](std::size_t a, std::size_t b) { return wishes[a].key < wishes[b].key; });
    std::vector<Rank> ranks;
    for (const std::size_t i : chosen) {
      ranks.push_back(members()[i]);
    }
    const auto place = std::find(chosen.begin(), chosen.end(), static_cast<std::size_t>(self_.value));
    return thread_communicator(group_->part(number, color, ranks), GroupRank{place - chosen.begin()});
  }

  void abort(std::string_view reason) override {
    const std::string text(reason);
    group_->job().end(
        {.rank = members()[static_cast<std::size_t>(self_.value)], .message = text, .told = text});
  }

 private:
  void perform_alone(const CommCall& call) const {
    group_->job().throw_if_ended();
    if (const std::string fault = fault_of(call, self_, 1); !fault.empty()) {
      throw SystemError(fault);
    }
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
