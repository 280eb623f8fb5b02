// The rule set of our own trainer. Source of every rule: docs/training.md, which commlens/engine follows too.
#include <utility>

#include "commlens/frameworks/commlens/check.hpp"
#include "commlens/frameworks/commlens/framework.hpp"
#include "commlens/frameworks/commlens/modules.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/commlens/units.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens::trainer {
namespace {

const Rule k_activation{"commlens.pipeline_activation", "docs/training.md#pipeline"};
const Rule k_gradient{"commlens.pipeline_gradient", "docs/training.md#pipeline"};
const Rule k_overflow{"commlens.gradient_overflow", "docs/training.md#step"};
const Rule k_norm{"commlens.gradient_norm", "docs/training.md#step"};
const Rule k_loss{"commlens.loss", "docs/training.md#step"};

constexpr std::int64_t k_loss_entries = 2;  // the loss, and the request to stop

/// One pipeline stage.
class Stage {
 public:
  Stage(ProgramBuilder& out, const Job& job, const ParameterList& all, std::int64_t stage)
      : out_(out),
        job_(job),
        modules_(out, job),
        stage_(stage),
        stages_(job.layout.pp),
        boundary_(job.train.micro_batch * job.model.sequence * job.model.hidden) {
    if (job.layout.sequence_parallel) {
      boundary_ /= job.layout.tp;
    }
    for (HeldChunk& held : held_chunks(job, all, stage)) {
      units_.emplace_back(out, job, held);
      held_.push_back(std::move(held));
    }
  }

  Program iteration() {
    for (const ComputeStep& step : order()) {
      if (step.is_forward) {
        forward(step);
      } else {
        backward(step);
      }
    }
    out_.set_phase(Phase::optimizer);
    for (ChunkUnits& units : units_) {
      units.finish_reductions();
    }
    for (const ChunkUnits& units : units_) {
      units.sum_tied_gradient();
    }
    write_overflow();
    write_norm();
    for (const ChunkUnits& units : units_) {
      ModelWork(out_).optimizer({units.updated()});
    }
    for (const ChunkUnits& units : units_) {
      units.share_updated();
    }
    out_.set_phase(Phase::other);
    if (job_.layout.mesh().ranks() > 1) {
      out_.all_reduce(out_.groups.world, {k_loss_entries}, DType::fp32, k_loss, "loss");
    }
    return out_.take();
  }

 private:
  std::vector<ComputeStep> order() const {
    const std::int64_t micro_batches = job_.train.micro_batches;
    if (std::ssize(held_) > 1) {
      return interleaved_1f1b(stage_, stages_, std::ssize(held_), micro_batches);
    }
    if (stages_ > 1 && job_.train.schedule == Schedule::gpipe) {
      return gpipe(micro_batches);
    }
    return one_f_one_b(stage_, stages_, micro_batches);
  }

  bool is_first_part(std::int64_t chunk) const { return chunk == 0 && stage_ == 0; }
  bool is_last_part(std::int64_t chunk) const {
    return chunk + 1 == std::ssize(held_) && stage_ + 1 == stages_;
  }

  void forward(const ComputeStep& step) {
    const auto chunk = static_cast<std::size_t>(step.chunk);
    out_.set_phase(Phase::forward, static_cast<std::int32_t>(step.micro_batch));
    if (!is_first_part(step.chunk)) {
      out_.recv(out_.groups.from_previous, {boundary_}, job_.train.dtype, k_activation, "activations");
    }
    const std::vector<HeldModule>& modules = held_[chunk].modules;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      units_[chunk].before_forward(module);
      modules_.forward(modules[module].role);
      units_[chunk].after_forward(module, stages_ == 1 && module + 1 == modules.size());
    }
    if (!is_last_part(step.chunk)) {
      send(out_.groups.to_next, k_activation, "activations");
    }
  }

  void backward(const ComputeStep& step) {
    const auto chunk = static_cast<std::size_t>(step.chunk);
    const auto micro_batch = static_cast<std::int32_t>(step.micro_batch);
    const bool is_last = step.micro_batch + 1 == job_.train.micro_batches;
    out_.set_phase(Phase::backward, micro_batch);
    if (!is_last_part(step.chunk)) {
      out_.recv(out_.groups.from_next, {boundary_}, job_.train.dtype, k_gradient, "activation.gradients");
    }
    const std::vector<HeldModule>& modules = held_[chunk].modules;
    for (std::size_t module = modules.size(); module-- > 0;) {
      const ModuleRole role = modules[module].role;
      units_[chunk].before_backward(module);
      if (role == ModuleRole::block && job_.train.recompute == Recompute::full) {
        recompute_block(micro_batch);
      }
      modules_.backward(role);
      units_[chunk].after_backward(module, is_last);
    }
    units_[chunk].end_backward();
    if (!is_first_part(step.chunk)) {
      send(out_.groups.to_previous, k_gradient, "activation.gradients");
    }
  }

  /// The stage goes on meanwhile.
  void send(GroupId to, const Rule& rule, std::string_view tag) {
    out_.set_waiting(Waiting::later);
    out_.send(to, {boundary_}, job_.train.dtype, rule, tag);
    out_.set_waiting(Waiting::at_once);
  }

  void recompute_block(std::int32_t micro_batch) {
    out_.set_phase(Phase::recompute, micro_batch);
    if (job_.train.partition_activations) {
      modules_.gather_kept_input();
    }
    modules_.forward(ModuleRole::block);
    out_.set_phase(Phase::backward, micro_batch);
  }

  /// fp16: whether the gradients of any rank overflowed.
  void write_overflow() {
    if (job_.train.dtype == DType::fp16 && job_.layout.mesh().ranks() > 1) {
      out_.all_reduce(out_.groups.world, {1}, DType::fp32, k_overflow, "gradient.overflow");
    }
  }

  /// The squared norm, over the ranks whose parts differ.
  void write_norm() {
    const GroupId group = job_.train.zero_stage > 0 ? out_.groups.world : out_.groups.model;
    if (job_.train.gradient_clipping > 0 && out_.tables().groups.size(group) > 1) {
      out_.all_reduce(group, {1}, DType::fp32, k_norm, "gradient.norm");
    }
  }

  ProgramBuilder& out_;
  const Job& job_;
  TensorParallelModules modules_;
  std::int64_t stage_;
  std::int64_t stages_;
  std::int64_t boundary_;  // elements between stages
  std::vector<HeldChunk> held_;
  std::vector<ChunkUnits> units_;
};

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  const ParameterList all(job.model);
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    ProgramBuilder out(plan);
    programs.push_back({{}, {Stage(out, job, all, stage).iteration()}});
  }
  return programs;
}

/// Every run of the trainer is compared with its prediction.
std::vector<std::string> unverified(const Job&) { return {}; }

bool has_sequence_parallelism(const Job&) { return true; }
void reduce_by_all_reduce(Job& job) { options(job).all_reduce_gradients = true; }

}  // namespace

FrameworkRules rules() {
  return {.name = k_name,
          .engine = k_name,
          .versions = {recorded_version("0.1")},
          .base = "",
          .check = check,
          .unverified = unverified,
          .write = write,
          .settings = {.adopt = adopt,
                       .skip_converted = skip_converted,
                       .settle = skip_converted,
                       .has_sequence_parallelism = has_sequence_parallelism,
                       .bucket = bucket,
                       .set_bucket = set_bucket,
                       .has_sharding_details = true,
                       .reduce_by_all_reduce = reduce_by_all_reduce,
                       .reduces_every_micro_batch = [](const Job& job) { return job.train.zero_stage == 2; },
                       .pads_to_tensor_ranks = true},
          .memory = {.keeps_small_parameters = true,
                     .of_stage = memory_of_stage,
                     .fuses_attention_of_llama = false},
          .advice = {.place = "of commlens train", .setting = setting_text, .changes = advised_changes},
          .variations = add_variations,
          .case_file = {.sections = {k_name},
                        .read_section = read_case_section,
                        .is_own_section = true,
                        .adopts_sections = true},
          .causes = causes()};
}

}  // namespace commlens::trainer
