#include "commlens/plan/model_work.hpp"

#include <algorithm>

namespace commlens {
namespace {

using enum ModulePart;

constexpr std::initializer_list<ModulePart> k_attention = {ln1, qkv, attention, proj};
constexpr std::initializer_list<ModulePart> k_mlp = {ln2, router, fc1, activation, fc2};

Recompute recompute_of(const ProgramBuilder& out) { return out.job().train.recompute; }

}  // namespace

std::vector<ModulePart> parts_of(Leaf leaf) {
  switch (leaf) {
    case Leaf::wte:
      return {embedding};
    case Leaf::wpe:
    case Leaf::q_norm:
    case Leaf::k_norm:
    case Leaf::sinks:
    case Leaf::q_a:
    case Leaf::q_a_norm:
    case Leaf::q_b:
    case Leaf::kv_a:
    case Leaf::kv_a_norm:
      return {};
    case Leaf::ln1:
      return {ln1};
    case Leaf::qkv:
    case Leaf::kv_b:
      return {qkv, attention};
    case Leaf::proj:
      return {proj};
    case Leaf::ln2:
      return {ln2};
    case Leaf::router:
      return {router};
    case Leaf::fc1:
      return {fc1, activation};
    case Leaf::fc2:
      return {fc2};
    case Leaf::norm:
      return {final_norm};
    case Leaf::head:
      return {head, loss};
  }
  return {};
}

void ModelWork::write(ModulePart part, Pass pass) {
  std::optional<KernelListId>& list = lists_[static_cast<std::size_t>(part)][static_cast<std::size_t>(pass)];
  if (!list) {
    list = out_.intern(kernels_of(out_.job(), part, pass));
  }
  out_.compute(*list);
}

void ModelWork::forward(std::initializer_list<ModulePart> parts) {
  for (const ModulePart part : parts) {
    write(part, Pass::forward);
  }
}

void ModelWork::backward(std::initializer_list<ModulePart> parts) {
  for (const ModulePart part : parts) {
    write(part, Pass::input_gradient);
    write(part, Pass::weight_gradient);
  }
}

void ModelWork::forward_block() {
  forward(k_attention);
  forward(k_mlp);
}

void ModelWork::recompute_scores() {
  if (recompute_of(out_) == Recompute::selective) {
    out_.set_phase(Phase::recompute, out_.micro_batch());
    write(attention, Pass::forward);
    out_.set_phase(Phase::backward, out_.micro_batch());
  }
}

void ModelWork::backward_block() {
  if (recompute_of(out_) == Recompute::full) {
    out_.set_phase(Phase::recompute, out_.micro_batch());
    forward_block();
    out_.set_phase(Phase::backward, out_.micro_batch());
  }
  backward({fc2, activation, fc1, router, ln2, proj});
  recompute_scores();
  backward({attention, qkv, ln1});
}

void ModelWork::forward_stage(const StagePart& part) {
  if (part.has_embedding) {
    forward({embedding});
  }
  for (std::int64_t layer = 0; layer < part.layers; ++layer) {
    forward_block();
  }
  if (part.has_final_norm) {
    forward({final_norm});
  }
  if (part.has_head) {
    forward({head, loss});
  }
}

void ModelWork::backward_stage(const StagePart& part) {
  if (part.has_head) {
    backward({loss, head});
  }
  if (part.has_final_norm) {
    backward({final_norm});
  }
  for (std::int64_t layer = 0; layer < part.layers; ++layer) {
    backward_block();
  }
  if (part.has_embedding) {
    backward({embedding});
  }
}

void ModelWork::optimizer(Elements elements, DType states) {
  if (elements.value > 0) {
    out_.compute(out_.intern(optimizer_kernels(elements, out_.job().train.dtype, states)));
  }
}

BackwardWalk::BackwardWalk(ProgramBuilder& out, const StagePart& part) : out_(out), work_(out) {
  constexpr std::int64_t outside = -1;
  const auto add = [&](std::initializer_list<ModulePart> parts) {
    for (const ModulePart one : parts) {
      pieces_.push_back({one, Pass::input_gradient, false, outside});
      pieces_.push_back({one, Pass::weight_gradient, false, outside});
    }
  };
  if (part.has_head) {
    add({loss, head});
  }
  if (part.has_final_norm) {
    add({final_norm});
  }
  for (std::int64_t layer = part.first_layer + part.layers - 1; layer >= part.first_layer; --layer) {
    add_layer(layer);
  }
  if (part.has_embedding) {
    add({embedding});
  }
}

void BackwardWalk::add_layer(std::int64_t layer) {
  const Recompute recompute = recompute_of(out_);
  if (recompute == Recompute::full) {
    for (const auto parts : {k_attention, k_mlp}) {
      for (const ModulePart part : parts) {
        pieces_.push_back({part, Pass::forward, true, layer});
      }
    }
  }
  for (const ModulePart part : {fc2, activation, fc1, router, ln2, proj, attention, qkv, ln1}) {
    if (part == attention && recompute == Recompute::selective) {
      pieces_.push_back({part, Pass::forward, true, layer});
    }
    pieces_.push_back({part, Pass::input_gradient, false, layer});
    pieces_.push_back({part, Pass::weight_gradient, false, layer});
  }
}

void BackwardWalk::write(const Piece& piece) {
  out_.set_phase(piece.is_recomputed ? Phase::recompute : Phase::backward, out_.micro_batch());
  work_.write(piece.part, piece.pass);
}

void BackwardWalk::until(const LocalParameter& parameter) {
  const std::vector<ModulePart> parts = parts_of(parameter.leaf == Leaf::wpe ? Leaf::wte : parameter.leaf);
  const auto ends_it = [&](const Piece& piece) {
    return piece.layer == parameter.layer && piece.part == parts.front() && !piece.is_recomputed &&
           piece.pass == Pass::weight_gradient;
  };
  const auto from = pieces_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto end = std::find_if(from, pieces_.end(), ends_it);
  if (end == pieces_.end()) {
    return;
  }
  std::for_each(from, end + 1, [&](const Piece& piece) { write(piece); });
  next_ = static_cast<std::size_t>(end + 1 - pieces_.begin());
  out_.set_phase(Phase::backward, out_.micro_batch());
}

void BackwardWalk::to_the_end() {
  for (; next_ < pieces_.size(); ++next_) {
    write(pieces_[next_]);
  }
  out_.set_phase(Phase::backward, out_.micro_batch());
}

}  // namespace commlens
