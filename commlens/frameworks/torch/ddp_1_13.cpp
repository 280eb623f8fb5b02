// The rule set of PyTorch 1.13 DistributedDataParallel. The source of a rule is beside it; docs/rules.md has
// the limits.
#include "commlens/frameworks/torch/ddp_1_13.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/frameworks/not_covered.hpp"
#include "commlens/frameworks/source_text.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/model_work.hpp"
#include "commlens/plan/program_builder.hpp"
#include "commlens/plan/schemes/buckets.hpp"

namespace commlens::torch_ddp {
namespace {

constexpr Literal k_version{"1.13"};
template <Literal Place>
constexpr const char* k_source = k_source_text<"torch", k_version, Place>;

const Rule k_states{"ddp.broadcast_module_states",
                    k_source<"distributed/utils.py _sync_module_states (250 MiB buckets)">, false};
const Rule k_first{"ddp.first_iteration_all_reduce",
                   k_source<"csrc/distributed/c10d/reducer.cpp: one initial bucket">};
const Rule k_bucket{"ddp.bucket_all_reduce", k_source<"csrc/distributed/c10d/reducer.cpp rebuild_buckets">};

constexpr std::int64_t k_first_bucket_bytes = 1024 * 1024;
constexpr std::int64_t k_broadcast_bucket_bytes = 250 * 1024 * 1024;

std::vector<std::int64_t> sizes_of(const LocalParameters& parameters) {
  std::vector<std::int64_t> sizes;
  for (const LocalParameter& parameter : parameters) {
    sizes.push_back(parameter.count);
  }
  return sizes;
}

/// What a rank computes in an iteration.
class Computing {
 public:
  Computing(ProgramBuilder& out, const LocalParameters& parameters)
      : out_(out),
        work_(out),
        everything_{.layers = out.job().model.layers},
        last_backward_(out, everything_),
        count_(total_count(parameters)) {}

  /// All but the backward pass of the last micro-batch, the only one whose gradients are reduced.
  void until_last_backward() {
    const auto last = static_cast<std::int32_t>(out_.job().train.micro_batches - 1);
    for (std::int32_t micro_batch = 0; micro_batch <= last; ++micro_batch) {
      out_.set_phase(Phase::forward, micro_batch);
      work_.forward_stage(everything_);
      out_.set_phase(Phase::backward, micro_batch);
      if (micro_batch < last) {
        work_.backward_stage(everything_);
      }
    }
    last_backward_.restart();
  }
  void backward_until(const LocalParameter& parameter) { last_backward_.until(parameter); }
  void end_backward() { last_backward_.to_the_end(); }
  void update() {
    out_.set_phase(Phase::optimizer);
    work_.optimizer({count_});
  }

 private:
  ProgramBuilder& out_;
  ModelWork work_;
  StagePart everything_;
  BackwardWalk last_backward_;
  std::int64_t count_;
};

}  // namespace

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t>, Plan& plan) {
  ProgramBuilder out(plan);
  const ParameterList all(job.model);
  const LocalParameters parameters =
      local_parameters(job.model, all, 1, StagePart{.layers = job.model.layers});
  const DType dtype = job.train.dtype;
  const auto in_elements = [&](std::int64_t bytes) { return ceil_div(bytes, size_of(dtype)); };
  StagePrograms programs;
  out.set_phase(Phase::init);
  const std::int64_t broadcast_bucket = in_elements(k_broadcast_bucket_bytes);
  for (const std::int64_t sum :
       buckets_closed_on_reaching(sizes_of(parameters), broadcast_bucket, broadcast_bucket)) {
    out.broadcast({out.groups.dp, GroupRank{0}}, {sum}, dtype, k_states, "module states");
  }
  programs.init = out.take();
  Computing computing(out, parameters);
  for (int iteration = 0; iteration < (pytorch::options(job).ddp.static_graph ? 2 : 1); ++iteration) {
    computing.until_last_backward();
    computing.end_backward();
    out.all_reduce(out.groups.dp, {total_count(parameters)}, dtype, k_first, "gradients");
    computing.update();
    programs.iterations.push_back(out.take());
  }
  computing.until_last_backward();
  const LocalParameters ready = in_ready_order(parameters);
  std::vector<StepIndex> reductions;
  out.set_waiting(Waiting::later);
  std::size_t end = 0;
  for (const std::int64_t sum : buckets_closed_on_reaching(
           sizes_of(ready), in_elements(k_first_bucket_bytes),
           in_elements(pytorch::options(job).ddp.bucket_cap.value_or(k_usual_cap).value))) {
    for (std::int64_t left = sum; left > 0; ++end) {
      left -= ready[end].count;
    }
    computing.backward_until(ready[end - 1]);
    out.all_reduce(out.groups.dp, {sum}, dtype, k_bucket, "gradient bucket");
    reductions.push_back(out.last_call());
  }
  computing.end_backward();
  std::for_each(reductions.begin(), reductions.end(), [&](StepIndex call) { out.wait_for(call); });
  computing.update();
  programs.iterations.push_back(out.take());
  return std::vector<StagePrograms>{std::move(programs)};
}

namespace {

/// Options that this writer reads; all others were written for 2.6 and later.
Result<void> check_options(const Job& job) {
  const pytorch::Options& own = pytorch::options(job);
  pytorch::Ddp read;
  read.is_used = own.ddp.is_used;
  read.bucket_cap = own.ddp.bucket_cap;
  read.static_graph = own.ddp.static_graph;
  read.accumulation_sync = own.ddp.accumulation_sync;
  if (own.ddp != read) {
    return failure(
        "the rules of PyTorch 1.13 have bucket_cap_mb and static_graph of ddp alone; set "
        "framework_version to 2.6 or later");
  }
  if (own.fsdp.is_used) {
    return failure(
        "the rules of PyTorch 1.13 have DDP alone; set framework_version to 2.6 or later for fsdp");
  }
  if (!job.model.is_whole()) {
    return failure(
        "the rules of PyTorch 1.13 have no frozen, unused or fp32 parts of a model and no buffers");
  }
  return own.ddp.is_used && own.ddp.accumulation_sync && job.train.micro_batches > 1
             ? failure(
                   "the rules of PyTorch 1.13 reduce gradients in the last micro-batch; set "
                   "accumulation_sync of ddp to false")
             : Result<void>();
}

}  // namespace

Result<void> check(const Job& job) {
  if (const Result<void> ok = check_options(job); !ok) {
    return ok;
  }
  const ParallelLayout& layout = job.layout;
  if (layout.tp * layout.pp * layout.cp * layout.ep * layout.replicate > 1 || job.model.experts > 0) {
    return not_covered(
        "the rules of PyTorch 1.13 are data parallel only; leave --tp, --pp, --cp and --ep at 1");
  }
  if (job.train.zero_stage > 0) {
    return not_covered(
        fmt::format("the torch-ddp rules have no ZeRO-{}; use --zero 0", job.train.zero_stage));
  }
  if (job.layout.sequence_parallel || job.train.recompute == Recompute::selective ||
      job.train.schedule != Schedule::one_f_one_b) {
    return failure(
        "the torch-ddp rules have no sequence parallelism, selective recompute or pipeline schedule; leave "
        "--sp, --recompute and --schedule out");
  }
  return {};
}

/// The recorded runs: fp32, one micro-batch, no recomputation, embeddings of their own.
std::vector<std::string> unverified(const Job& job) {
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(pytorch::options(job).ddp.static_graph, "static_graph");
  add(job.train.micro_batches > 1, "gradient accumulation");
  add(job.model.family != Family::gpt, "models other than gpt");
  add(job.train.dtype != DType::fp32, "gradients in fp16 or bf16");
  add(job.train.recompute != Recompute::none, "recomputation");
  add(job.model.tied_embeddings, "tied embeddings");
  add(job.model.parallel_residual, "parallel residual");
  return reasons;
}

}  // namespace commlens::torch_ddp
