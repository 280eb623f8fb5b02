#include "commlens/frameworks/deepspeed/pass_runner.hpp"

#include <algorithm>
#include <utility>

namespace commlens::deepspeed {

namespace {
using StepKind = PassStep::Kind;
}

PassRunner::PassRunner(ProgramBuilder& out, const ModelTree& tree, const PassOptions& options,
                       ModuleMessages messages)
    : out_(out),
      tree_(tree),
      messages_(std::move(messages)),
      work_(out),
      forward_(forward_steps(tree, options)),
      backward_(backward_steps(tree, options)),
      next_(backward_.size()) {}

void PassRunner::forward(const PassHooks& hooks) {
  for (const PassStep& step : forward_) {
    run(step, false, hooks);
  }
}

void PassRunner::start_backward() { next_ = 0; }

void PassRunner::backward_until(std::string_view parameter, const PassHooks& hooks) {
  const auto completes_it = [&](const PassStep& step) {
    return step.kind == StepKind::gradient && tree_.parameters[step.row].name == parameter;
  };
  const auto from = backward_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto found = std::find_if(from, backward_.end(), completes_it);
  if (found == backward_.end()) {
    return;
  }
  std::for_each(from, found + 1, [&](const PassStep& step) { run(step, true, hooks); });
  next_ = static_cast<std::size_t>(found + 1 - backward_.begin());
}

void PassRunner::end_backward(const PassHooks& hooks) {
  for (; next_ < backward_.size(); ++next_) {
    run(backward_[next_], true, hooks);
  }
}

void PassRunner::run(const PassStep& step, bool is_backward, const PassHooks& hooks) {
  const bool goes_back = is_backward && !is_recomputing_;
  switch (step.kind) {
    case StepKind::before:
    case StepKind::inside:
    case StepKind::after:
      if (messages_) {
        messages_(tree_.modules[step.row], step.kind, goes_back);
      }
      return;
    case StepKind::fetch:
      if (hooks.fetch) {
        hooks.fetch(step.row, is_recomputing_);
      }
      return;
    case StepKind::compute:
      return compute(*tree_.modules[step.row].leaf, goes_back);
    case StepKind::gradient:
      if (hooks.gradient) {
        hooks.gradient(step.row);
      }
      return;
    case StepKind::release:
      if (hooks.release) {
        hooks.release(step.row, is_recomputing_);
      }
      return;
    case StepKind::begin_recompute:
      is_recomputing_ = true;
      out_.set_phase(Phase::recompute, out_.micro_batch());
      return;
    case StepKind::end_recompute:
      is_recomputing_ = false;
      out_.set_phase(Phase::backward, out_.micro_batch());
      return;
  }
}

void PassRunner::compute(Leaf leaf, bool is_backward) {
  if (!computes_) {
    return;
  }
  const std::vector<ModulePart> parts = parts_of(leaf);
  if (!is_backward) {
    for (const ModulePart part : parts) {
      work_.write(part, Pass::forward);
    }
    return;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    work_.backward({*part});
  }
}

}  // namespace commlens::deepspeed
