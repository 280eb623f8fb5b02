// Every value of tests/facts/expected.json that theory fixes, against what the program computes.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/paper/equations.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/model/flops.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/plan/schemes/closed_forms.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;

std::string source_directory() {
  const char* source = std::getenv("COMMLENS_SOURCE_DIR");
  return source == nullptr ? "." : source;
}

const Json& expected() {
  static const Json values = [] {
    std::ifstream file(source_directory() + "/tests/facts/expected.json");
    return Json::parse(file);
  }();
  return values;
}

Job job_of(const std::string& model, const Overrides& flags) {
  const Result<Job> job = validated(with_overrides(*preset(model), flags).value());
  EXPECT_TRUE(job.has_value()) << model << ": " << job.error().message;
  return *job;
}

EquationValue equation(const Job& job, const std::string& name) {
  for (const EquationValue& value : equations(job)) {
    if (value.equation == name) {
      return value;
    }
  }
  ADD_FAILURE() << "no equation " << name;
  return {};
}

std::vector<BreakdownRow> steady_rows(const Job& job, std::optional<Rank> rank = Rank{0},
                                      Accounting accounting = Accounting::messages) {
  const Result<Plan> plan = make_plan(job, rank);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return breakdown(plan->trace_of({plan->steady_iteration()}), {.accounting = accounting});
}

struct Sum {
  std::int64_t calls = 0;
  std::int64_t message = 0;
  std::int64_t wire = 0;
};

Sum sum_of(const std::vector<BreakdownRow>& rows, CommKind kind, std::string_view tag = "",
           const Trace* trace = nullptr) {
  Sum sum;
  for (const BreakdownRow& row : rows) {
    const bool matches = row.kind == kind && (trace == nullptr || trace->tags.text(row.tag) == tag);
    if (matches) {
      sum.calls += row.calls;
      sum.message += row.total_message.value;
      sum.wire += row.wire_per_rank.value;
    }
  }
  return sum;
}

TEST(Expected, ParameterCounts) {
  for (const auto& [name, values] : expected().at("models").items()) {
    SCOPED_TRACE(name);
    const Job job = job_of(name, {});
    EXPECT_EQ(paper_parameter_count(job.model).value, values.at("P_eq1"));
    EXPECT_EQ(parameter_count(job.model).value, values.at("P_exact"));
    EXPECT_EQ(ParameterList(job.model).total().value, values.at("P_exact"));
    EXPECT_EQ(2 * job.model.vocab * job.model.hidden, values.at("P_embed"));
    for (const auto& [tp, vocab] : values.at("padded_vocab_by_tp").items()) {
      EXPECT_EQ(with_padded_vocab(job.model, std::stoll(tp)).vocab, vocab) << "tp=" << tp;
    }
    for (const auto& [tp, is_possible] : values.at("tp_ok").items()) {
      Overrides flags;
      flags.tp = std::stoll(tp);
      EXPECT_EQ(validated(with_overrides(*preset(name), flags).value()).has_value(), is_possible)
          << "tp=" << tp;
    }
  }
}

/// What `by_stage` has for a model on so many data-parallel ranks; `exact`: with the true count.
void expect_data_parallel_volumes(const std::string& name, std::int64_t ranks, bool exact,
                                  const Json& by_stage) {
  for (int stage = 0; stage <= 3; ++stage) {
    Overrides flags;
    flags.dp = ranks;
    flags.zero = stage;
    const EquationValue value = equation(job_of(name, flags), stage == 3 ? "3" : "2");
    const std::string key = stage == 0 ? "DDP" : fmt::format("ZeRO{}_paper", stage);
    EXPECT_EQ(exact ? value.value_exact : value.value, by_stage.at(key).at("elements").get<double>()) << key;
  }
  const Job job = job_of(name, {});
  const auto parameters =
      static_cast<double>((exact ? parameter_count(job.model) : paper_parameter_count(job.model)).value);
  EXPECT_EQ(zero_plus_plus_inter_node_elements(parameters),
            by_stage.at("ZeROpp_all_inter_node_fp16_equiv").at("elements_fp16_equiv").get<double>());
}

/// Figures 8 and 10: Eqs 2 and 3 with Eq. 1's and with the true count.
TEST(Expected, DataParallelVolumes) {
  for (const auto& [name, values] : expected().at("fig8_fig10").items()) {
    for (const std::string count : {"eq1_P", "exact_P"}) {
      for (const auto& [ranks, by_stage] : values.at(count).items()) {
        SCOPED_TRACE(fmt::format("{} {} d={}", name, count, ranks));
        expect_data_parallel_volumes(name, std::stoll(ranks), count == "exact_P", by_stage);
      }
    }
  }
}

/// DeepSpeed's ZeRO-1 and 2 put 3 P (d-1)/d on the wire: gradients and parameters of one step, without the
/// flags and norms (9 bytes of message) and with the padding of the gathers (less than 4 d elements).
TEST(Expected, DeepSpeedVolumes) {
  for (const auto& [name, values] : expected().at("fig8_fig10").items()) {
    for (const auto& [ranks, by_stage] : values.at("exact_P").items()) {
      SCOPED_TRACE(fmt::format("{} d={}", name, ranks));
      Overrides flags;
      flags.dp = std::stoll(ranks);
      flags.framework = "deepspeed";
      flags.zero = 1;
      const std::vector<BreakdownRow> rows = steady_rows(job_of(name, flags));
      const std::int64_t wire =
          sum_of(rows, CommKind::all_reduce).wire + sum_of(rows, CommKind::all_gather).wire;
      const std::int64_t bytes = by_stage.at("ZeRO12_deepspeed014_allreduce_plus_allgather").at("bytes_fp16");
      EXPECT_GE(wire, bytes);
      EXPECT_LT(wire, bytes + 2 * 9 + 2 * 4 * *flags.dp);
    }
  }
}

/// Figures 7 and 8 as DeepSpeed's logger shows them.
TEST(Expected, LoggerView) {
  const Json& models = expected().at("fig7_fig8_deepspeed_logger_view").at("values");
  for (const auto& [name, by_ranks] : models.items()) {
    for (const auto& [ranks, values] : by_ranks.items()) {
      SCOPED_TRACE(fmt::format("{} d={}", name, ranks));
      Overrides flags;
      flags.dp = std::stoll(ranks);
      flags.framework = "deepspeed";
      flags.zero = 0;
      const Job ddp = job_of(name, flags);
      const Plan plan = make_plan(ddp, Rank{0}).value();
      const auto init =
          breakdown(plan.trace_of({k_init_iteration}), {.accounting = Accounting::comms_logger});
      EXPECT_EQ(sum_of(init, CommKind::broadcast).message, values.at("init_broadcast_bytes"));
      const auto logged = steady_rows(ddp, Rank{0}, Accounting::comms_logger);
      EXPECT_EQ(sum_of(logged, CommKind::all_reduce).message, values.at("DDP").at("all_reduce_bytes"));
      flags.zero = 3;
      const auto zero3 = steady_rows(job_of(name, flags), Rank{0}, Accounting::comms_logger);
      EXPECT_EQ(sum_of(zero3, CommKind::reduce_scatter).message,
                values.at("ZeRO3").at("reduce_scatter_tensor_bytes_full"));
      flags.zero = 1;
      const auto zero1 = steady_rows(job_of(name, flags), Rank{0}, Accounting::comms_logger);
      const std::int64_t flags_and_norms = 1 + 2 * 4;
      EXPECT_EQ(sum_of(zero1, CommKind::all_reduce).message - flags_and_norms,
                values.at("ZeRO1/2").at("all_reduce_bytes"));
      const std::int64_t shards = sum_of(zero1, CommKind::all_gather).message;
      EXPECT_GE(shards, values.at("ZeRO1/2").at("all_gather_into_tensor_bytes_shard").get<std::int64_t>());
      EXPECT_LE(shards,
                values.at("ZeRO1/2").at("all_gather_into_tensor_bytes_shard").get<std::int64_t>() + 8);
    }
  }
}

/// Figure 9: ZeRO-3 on 16 ranks gathers each persistent tensor in a call of its own; the sizes of the cold
/// iteration's gathers are those of single modules.
TEST(Expected, Zero3Gathers) {
  const Json& models = expected().at("fig9_zero3_allgather_sizes_d16").at("models");
  for (const auto& [name, values] : models.items()) {
    SCOPED_TRACE(name);
    Overrides flags;
    flags.dp = 16;
    flags.zero = 3;
    flags.framework = "deepspeed";
    const Plan plan = make_plan(job_of(name, flags), Rank{0}).value();
    const Trace steady = plan.trace_of({plan.steady_iteration()});
    std::map<std::int64_t, std::int64_t> persistent;  // shard bytes -> calls
    std::int64_t calls = 0;
    for (const BreakdownRow& row : breakdown(steady, {.accounting = Accounting::comms_logger})) {
      if (steady.rule(row.rule).name == "zero3.persistent_parameter_gather") {
        persistent[row.message.value] += row.calls;
        calls += row.calls;
      }
    }
    EXPECT_EQ(calls, values.at("AG_calls_per_iter_per_tensor_bound").at("step_allgather_of_persistent"));
    std::map<std::int64_t, std::int64_t> by_size;
    for (const Json& tensor : values.at("tensors")) {
      if (tensor.at("persistent(<1e5)")) {
        by_size[tensor.at("shard_bytes_fp16_d16")] += tensor.at("count").get<std::int64_t>();
      }
    }
    EXPECT_EQ(persistent, by_size);
  }
}

/// Figures 11a and 13a: Eq. 4, and what rank 0 of DeepSpeed's pipeline sends and receives.
TEST(Expected, PipelineVolumes) {
  for (const auto& [name, model] : expected().at("fig11a_13a_pipeline").at("models").items()) {
    for (const auto& [stages, values] : model.at("by_p").items()) {
      SCOPED_TRACE(fmt::format("{} p={}", name, stages));
      Overrides flags;
      flags.pp = std::stoll(stages);
      if (preset(name)->model.layers + 2 < *flags.pp) {
        continue;  // fewer layers than stages: the equation has a value, no framework a run
      }
      const Job job = job_of(name, flags);
      EXPECT_EQ(equation(job, "4").value, values.at("eq4_elements").get<double>());
      const std::vector<BreakdownRow> rows = steady_rows(job);
      EXPECT_EQ(sum_of(rows, CommKind::send).message,
                values.at("deepspeed_rank0_send_bytes_per_mb(hidden+mask)"));
      EXPECT_EQ(sum_of(rows, CommKind::recv).message, values.at("deepspeed_rank0_recv_bytes_per_mb"));
      std::vector<BreakdownRow> sends = steady_rows(job, std::nullopt);
      std::erase_if(sends, [](const BreakdownRow& row) { return row.kind != CommKind::send; });
      EXPECT_EQ(aggregate_wire(sends).value, values.at("deepspeed_aggregate_send_bytes_one_replica"));
    }
  }
}

/// Figures 11b and 13b: Eq. 5, its correction, and GPT-NeoX's activation all_reduces.
TEST(Expected, TensorVolumes) {
  for (const auto& [name, model] : expected().at("fig11b_13b_tensor").at("models").items()) {
    for (const auto& [ranks, values] : model.items()) {
      SCOPED_TRACE(fmt::format("{} t={}", name, ranks));
      Overrides flags;
      flags.tp = std::stoll(ranks);
      if (values.contains("invalid")) {
        EXPECT_FALSE(validated(with_overrides(*preset(name), flags).value()).has_value());
        continue;
      }
      Job job = job_of(name, flags);
      EXPECT_EQ(equation(job, "5").value, values.at("eq5_elements").get<double>());
      EXPECT_EQ(job.model.vocab, values.at("padded_vocab"));
      job.model.parallel_residual = false;  // the file counts two forward all_reduces a layer for every model
      EXPECT_EQ(tensor_all_reduces(job), values.at("n_allreduce_neox"));
      EXPECT_EQ(equation(job, "5").value_exact, values.at("corrected_wire_elements").get<double>());
      const Plan plan = make_plan(job, Rank{0}).value();
      const Trace trace = plan.trace_of({plan.steady_iteration()});
      const std::int64_t activation = job.train.micro_batch * job.model.sequence * job.model.hidden * 2;
      std::int64_t activations = 0;
      std::int64_t cross_entropy = 0;
      std::int64_t checkpoint = 0;
      for (const BreakdownRow& row : breakdown(trace, {})) {
        const std::string& tag = trace.tags.text(row.tag);
        activations +=
            row.kind == CommKind::all_reduce && row.message.value == activation ? row.total_message.value : 0;
        cross_entropy += tag == "cross entropy" ? row.total_message.value : 0;
        checkpoint += tag == "checkpointed layer input" ? row.total_message.value : 0;
      }
      EXPECT_EQ(activations, values.at("logged_message_bytes(6L+2)*bsh*2"));
      EXPECT_EQ(cross_entropy, values.at("vocab_parallel_CE_bytes"));
      if (job.train.partition_activations) {
        EXPECT_EQ(checkpoint, values.at("partition_activations_AG_bytes_full(L*bsh*2)"));
      }
      job.train.recompute = Recompute::none;
      EXPECT_EQ(equation(job, "5").value_exact, values.at("no_recompute_elements(8L+4)").get<double>());
      const double share = static_cast<double>(parameter_count(job.model).value) / std::stod(ranks);
      EXPECT_EQ(data_parallel_elements(share, 16.0 / std::stod(ranks)),
                values.at("dp_grad_allreduce_elements_if_d=16/t").get<double>());
    }
  }
}

/// Figures 14 and 15: 1.3B over sequence lengths; receives double exactly, sends by 2.118, 2.222 and 2.400.
TEST(Expected, SequenceLengths) {
  const Json& figure = expected().at("fig14_fig15_sequence_length_1.3B");
  std::vector<double> sends;
  std::vector<double> recvs;
  for (const char* length : {"512", "1024", "2048", "4096"}) {
    SCOPED_TRACE(length);
    const Json& values = figure.at("values").at(length);
    Overrides flags;
    flags.seq = std::stoll(length);
    flags.pp = 2;
    const Job pipeline = job_of("1.3B", flags);
    const std::vector<BreakdownRow> rows = steady_rows(pipeline);
    sends.push_back(static_cast<double>(sum_of(rows, CommKind::send).message));
    recvs.push_back(static_cast<double>(sum_of(rows, CommKind::recv).message));
    EXPECT_EQ(sends.back(), values.at("pp2_rank0_send_bytes(hidden+mask)").get<double>());
    EXPECT_EQ(recvs.back(), values.at("pp2_rank0_recv_bytes").get<double>());
    EXPECT_EQ(equation(pipeline, "4").value, values.at("pp2_eq4_elements").get<double>());
    EXPECT_EQ(paper_parameter_count(pipeline.model).value, values.at("P_eq1_at_s"));
    EXPECT_EQ(parameter_count(pipeline.model).value, values.at("zero_AG_elements_P_exact"));
    flags.tp = 2;
    const std::vector<BreakdownRow> mixed = steady_rows(job_of("1.3B", flags));
    const std::int64_t meta = 72;
    EXPECT_EQ(sum_of(mixed, CommKind::send).message - meta, values.at("tp2pp2_send_bytes_partitioned"));
    flags.pp = 1;
    const Job tensor = job_of("1.3B", flags);
    EXPECT_EQ(equation(tensor, "5").value, values.at("tp2_eq5_elements").get<double>());
    EXPECT_EQ(equation(tensor, "5").value_exact, values.at("tp2_corrected_elements").get<double>());
    flags.tp = 1;
    Job job = job_of("1.3B", flags);
    EXPECT_NEAR(micro_batch_flops(job).value, values.at("flops_iter_per_dp_rank_recompute").get<double>(),
                1e9);
    job.train.recompute = Recompute::none;
    EXPECT_NEAR(micro_batch_flops(job).value, values.at("flops_iter_no_recompute").get<double>(), 1e9);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(sends[i + 1] / sends[i], figure.at("ratios_send")[i].get<double>(), 5e-5);
    EXPECT_EQ(recvs[i + 1] / recvs[i], 2.0);
  }
}

/// Model states and layer checkpoints against a 64 GiB GCD.
TEST(Expected, Memory) {
  for (const auto& [name, by_ranks] : expected().at("oom_check").at("bytes").items()) {
    for (const auto& [ranks, values] : by_ranks.items()) {
      for (int stage = 0; stage <= 3; ++stage) {
        SCOPED_TRACE(fmt::format("{} d={} stage {}", name, ranks, stage));
        Overrides flags;
        flags.dp = std::stoll(ranks);
        flags.zero = stage;
        const MemoryEstimate memory = memory_per_rank(job_of(name, flags));
        const std::string key = stage == 0 ? "DDP" : "ZeRO" + std::to_string(stage);
        const Bytes states = memory.parameters + memory.gradients + memory.optimizer;
        EXPECT_NEAR(static_cast<double>(states.value), values.at(key).get<double>(), 64.0);
        constexpr std::int64_t gcd = 64LL << 30;
        const std::int64_t checkpoints = values.at("ckpt_act_bytes");
        EXPECT_EQ(states.value + checkpoints <= gcd, values.at("fits64GiB").at(key).get<bool>());
      }
    }
  }
}

/// DeepSpeed pull request 2012: the summary that its comms logger printed for GPT-2 345M.
TEST(Expected, PublishedLog) {
  const Json& log = expected().at("golden_real_log");
  const std::string example = source_directory() + "/examples/gpt2-345M-zero3.yaml";
  const Job job = validated(read_config({example}, "").value()).value();
  EXPECT_EQ(parameter_count(job.model).value, log.at("model").at("P"));
  const Plan plan = make_plan(job, Rank{0}).value();
  std::map<std::pair<CommKind, std::string>, std::int64_t>
      calls;  // by size as the logger prints it, MB rounded
  for (const Iteration iteration : {k_init_iteration, plan.steady_iteration()}) {
    for (const BreakdownRow& row :
         breakdown(plan.trace_of({iteration}), {.accounting = Accounting::comms_logger})) {
      const double kilobytes = static_cast<double>(row.message.value) / 1024.0;
      const std::string size = kilobytes < 1024 ? fmt::format("{:.1f} KB", kilobytes)
                                                : fmt::format("{:.2f} MB", kilobytes / 1024.0);
      calls[{row.kind, size}] += row.calls;
    }
  }
  const auto broadcasts = [&](const char* size) { return calls[{CommKind::broadcast, size}]; };
  EXPECT_EQ(broadcasts("2.0 KB"), 146);
  EXPECT_EQ(broadcasts("6.0 KB"), 24);
  EXPECT_EQ(broadcasts("8.0 KB"), 24);
  EXPECT_EQ(broadcasts("2.00 MB"), 24);
  EXPECT_EQ(broadcasts("98.25 MB"), 1);
  EXPECT_EQ(broadcasts("6.00 MB"), 24);
  EXPECT_EQ(broadcasts("8.00 MB"), 48);
  EXPECT_EQ(broadcasts("4.00 MB"), 1);
  EXPECT_EQ((calls[{CommKind::reduce_scatter, "678.86 MB"}]), 1) << "one per reduction";
}

/// Figures 1 and 2: one micro-batch on eight tensor ranks.
TEST(Expected, Zero1WithEightTensorRanks) {
  for (const auto& [name, values] : expected().at("fig1_fig2_zero1_tp8").at("per_microbatch").items()) {
    SCOPED_TRACE(name);
    Overrides flags;
    flags.tp = 8;
    Job job = job_of(name, flags);
    EXPECT_EQ(tensor_all_reduces(job), values.at("tp_allreduces_per_microbatch"));
    EXPECT_EQ(equation(job, "5").value_exact, values.at("tp_wire_elements_per_mb").get<double>());
    EXPECT_EQ(parameter_count(job.model).value / 8, values.at("params_per_rank"));
    job.model.vocab = 50304;  // the file's operations lack the padding for eight tensor ranks
    EXPECT_NEAR(micro_batch_flops(job).value / 8, values.at("flops_per_mb_per_gpu").get<double>(), 1e9);
  }
}

}  // namespace
}  // namespace commlens
