#include "commlens/frameworks/megatron/start.hpp"

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_compile{"megatron.start_barrier", k_new_source<"training/initialize.py:185">};
const Rule k_program_start{"megatron.start_time", k_new_source<"training/training.py:1132">};
const Rule k_start{"megatron.start_time", k_new_source<"training/training.py:1138">};
const Rule k_date{"megatron.start_barrier", k_new_source<"training/training.py:294 print_datetime">};
const Rule k_start_timers{"megatron.timers", k_new_source<"core/timers.py:314">};
const Rule k_copied_table{"megatron.tied_embedding_start",
                          k_new_source<"core/models/common/language_module/language_module.py:308">};
const Rule k_key_gather{"megatron.optimizer_keys", k_new_source<"core/optimizer/__init__.py:364">};
const Rule k_random_start{"megatron.parameter_broadcast",
                          k_new_source<"core/distributed/distributed_data_parallel.py:619">};
const Rule k_datasets{"megatron.datasets", k_new_source<"training/training.py:4593">};
const Rule k_dataset_barrier{"megatron.start_barrier",
                             k_new_source<"core/datasets/blended_megatron_dataset_builder.py:451">};

constexpr std::int64_t k_start_stamps = 10;
constexpr std::int64_t k_setup_timers = 2;
constexpr std::int64_t k_splits = 3;      // of the data, and what their broadcast has one number of each of
constexpr std::int64_t k_key_bytes = 46;  // of a pickle of parameter-group keys in recorded runs

class StartWriter {
 public:
  StartWriter(const StageContext& stage, ParameterShards* shards)
      : stage_(stage), out_(stage.out), shards_(shards) {}

  void write() {
    out_.set_phase(Phase::init);
    out_.set_reduction(Reduction::sum);
    if (stage_.has_script()) {
      stamps();
    }
    model();
    if (shards_ != nullptr) {
      shards_->start();
    }
    optimizer();
    if (stage_.has_script()) {
      datasets();
    }
  }

 private:
  void barrier(const Rule& rule) { out_.barrier(stage_.groups.world, rule); }

  void stamps() {
    barrier(k_compile);
    out_.set_reduction(Reduction::min);
    if (stage_.behaviour.stamps_start) {
      out_.all_reduce(stage_.groups.world, {1}, DType::fp64, k_program_start, "start of the program");
    }
    out_.all_reduce(stage_.groups.world, {1}, DType::fp64, k_start, "start");
    out_.set_reduction(Reduction::sum);
    barrier(k_date);
    if (stage_.behaviour.stamps_start) {
      barrier(k_date);
      barrier(k_date);
      out_.all_gather(stage_.groups.world, {k_start_stamps}, DType::fp32, k_start_timers, "start stamps");
    }
    barrier(k_date);
    barrier(k_date);
  }

  void model() {
    const Job& job = stage_.job;
    if (stage_.has_tied_copy()) {
      out_.all_reduce(stage_.groups.embeddings, {job.model.vocab / job.layout.tp * job.model.hidden},
                      job.train.dtype, k_copied_table, "tied embedding");
    }
    if (!stage_.options.broadcasts_parameters) {
      return;
    }
    for (const std::vector<ModuleParameter>& chunk : stage_.parameters) {
      for (const ModuleParameter& parameter : chunk) {
        const GroupId group = parameter.is_expert ? stage_.groups.edp : stage_.groups.dp_cp;
        out_.broadcast({group, GroupRank{0}}, {parameter.count}, job.train.dtype, k_random_start,
                       "parameters");
      }
    }
  }

  /// Pickles, whose lengths are gathered first: of dense parameters and of experts.
  void optimizer() {
    out_.set_match(Match::count);
    const int filters = stage_.options.is_muon || stage_.options.is_megatron_fsdp ? 1 : 2;
    for (int filter = 0; stage_.behaviour.gathers_optimizer_keys && filter < filters; ++filter) {
      out_.all_gather(stage_.groups.world, {1}, DType::int64, k_key_gather, "length of keys");
      out_.all_gather(stage_.groups.world, {k_key_bytes}, DType::uint8, k_key_gather, "keys");
    }
    out_.set_match(Match::exact);
    if (stage_.has_script()) {
      barrier(k_date);
      barrier(k_date);
    }
  }

  void datasets() {
    for (std::size_t chunk = 0; chunk < stage_.chunks.size(); ++chunk) {
      for (std::int64_t split = 0; split < k_splits; ++split) {
        barrier(k_dataset_barrier);
      }
      out_.broadcast({stage_.groups.world, GroupRank{0}}, {k_splits}, DType::int64, k_datasets,
                     "which splits there are");
    }
    barrier(k_date);
    barrier(k_date);
    out_.all_gather(stage_.groups.world, {k_setup_timers}, DType::fp32, k_start_timers, "setup timers");
    barrier(k_date);
    barrier(k_date);
  }

  const StageContext& stage_;
  ProgramBuilder& out_;
  ParameterShards* shards_;
};

}  // namespace

void write_start(const StageContext& stage, ParameterShards* shards) { StartWriter(stage, shards).write(); }

}  // namespace commlens::megatron
