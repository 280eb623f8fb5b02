#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens {

/// Writes what a rank computes for one micro-batch as steps of the compute stream. Every call of `backward_…`
/// goes on in the phase backward, also where something is computed again before it.
class ModelWork {
 public:
  /// `out` outlives it.
  explicit ModelWork(ProgramBuilder& out) : out_(out) {}

  void write(ModulePart part, Pass pass);
  void forward(std::initializer_list<ModulePart> parts);
  /// Of each part the input's gradient and then the weight's.
  void backward(std::initializer_list<ModulePart> parts);

  /// A block, where no message comes between.
  void forward_block();
  /// With what is recomputed of it first.
  void backward_block();

  /// Of one stage, where no message comes between.
  void forward_stage(const StagePart& part);
  void backward_stage(const StagePart& part);

  /// The update of so many parameters, which Adam keeps in `states`.
  void optimizer(Elements elements, DType states = DType::fp32);

  /// Under selective recomputation: the scores once more.
  void recompute_scores();

 private:
  ProgramBuilder& out_;
  std::array<std::array<std::optional<KernelListId>, 3>, k_module_parts> lists_;
};

/// The backward pass of one stage and micro-batch in pieces that end where a gradient is complete.
class BackwardWalk {
 public:
  /// `out` outlives it.
  BackwardWalk(ProgramBuilder& out, const StagePart& part);

  /// Begins another micro-batch.
  void restart() { next_ = 0; }
  /// Computes on until the gradient of `parameter` is complete; nothing where it is already.
  void until(const LocalParameter& parameter);
  void to_the_end();

 private:
  struct Piece {
    ModulePart part;
    Pass pass;
    bool is_recomputed;
    std::int64_t layer;
  };
  void add_layer(std::int64_t layer);
  void write(const Piece& piece);

  ProgramBuilder& out_;
  ModelWork work_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
};

/// The parts that a leaf module computes forward, in their order: its own and what follows it and has no
/// parameters.
std::vector<ModulePart> parts_of(Leaf leaf);

}  // namespace commlens
