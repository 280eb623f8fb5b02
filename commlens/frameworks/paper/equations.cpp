#include "commlens/frameworks/paper/equations.hpp"

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/schemes/closed_forms.hpp"

namespace commlens {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }

/// Eq. 1's count with the vocabulary the paper uses: padded for one tensor rank.
double paper_count(const Job& job) {
  return as_double(paper_parameter_count(with_padded_vocab(job.model, 1)).value);
}

/// Parameters a rank of the first stage holds, layers split evenly.
double count_on_first_rank(const Job& job) {
  if (job.layout.tp * job.layout.pp == 1) {
    return as_double(parameter_count(job.model).value);
  }
  const StagePart first{0, ceil_div(job.model.layers, job.layout.pp), true, job.layout.pp == 1,
                        job.layout.pp == 1};
  return as_double(total_count(local_parameters(job.model, ParameterList(job.model), job.layout.tp, first)));
}

bool is_read_as_deepspeed(const Job& job) { return deepspeed::runs(job) || job.framework == "paper"; }

bool sends_mask(const Job& job) {
  return job.framework == "neox" || (job.framework == "deepspeed" && deepspeed::options(job).attention_mask);
}

EquationValue parameter_equation(const Job& job) {
  return {"1",
          "2Vh + sh + L(12h^2 + 8h) + 2h",
          paper_count(job),
          as_double(parameter_count(job.model).value),
          "parameters",
          "model",
          "a layer has 13h biases and norm weights, not 8h; sh exists with learned positions only; V is "
          "padded to a "
          "multiple of 128 t"};
}

EquationValue data_equation(const Job& job) {
  const double ranks = as_double(job.layout.dp);
  const double micro_batches = as_double(job.train.micro_batches);
  const bool zero3 = job.train.zero_stage == 3;
  const double exact = count_on_first_rank(job);
  EquationValue equation{
      zero3 ? "3" : "2",
      zero3 ? "3 P (d-1)/d" : "2 P (d-1)/d",
      zero3 ? zero3_elements(paper_count(job), ranks, 1) : data_parallel_elements(paper_count(job), ranks),
      0,
      "elements",
      "per rank",
      "true count of the parameters that a rank of the first stage holds"};
  equation.value_exact = zero3 ? zero3_elements(exact, ranks, micro_batches)
                               : zero12_elements(exact, ranks, job.train.zero_stage == 2 ? micro_batches : 1);
  const bool deepspeed_below = is_read_as_deepspeed(job);
  if (zero3) {
    equation.note += "; once per micro-batch";
    equation.note +=
        deepspeed_below ? "; DeepSpeed gathers less when parameters stay from forward to backward" : "";
  } else if (job.train.zero_stage > 0) {
    equation.note += job.train.zero_stage == 2 ? "; ZeRO-2 reduces in every micro-batch" : "";
    equation.note += deepspeed_below
                         ? "; DeepSpeed 0.14 all_reduces gradients instead of scattering them, which makes "
                           "it 3 P (d-1)/d"
                         : "";
  }
  return equation;
}

EquationValue pipeline_equation(const Job& job) {
  const double activation = as_double(job.train.micro_batch * job.model.sequence * job.model.hidden);
  return {"4",
          "2 b s h (p-1)",
          2.0 * activation * as_double(job.layout.pp - 1),
          2.0 * as_double(job.train.micro_batches) * activation *
              as_double(job.layout.pp * job.layout.virtual_stages - 1),
          "elements",
          "all stages of one replica",
          sends_mask(job)
              ? "all micro-batches; the attention mask comes on top, s^2 fp16 values with every activation"
              : "all micro-batches and model chunks"};
}

EquationValue tensor_equation(const Job& job) {
  const double activation = as_double(job.train.micro_batch * job.model.sequence * job.model.hidden);
  const double layers = as_double(job.model.layers) / as_double(job.layout.pp);
  const double per_stage = as_double(tensor_all_reduces(job) - 2) / as_double(job.layout.pp);
  const double ends = job.layout.pp == 1 ? 2.0 : 1.0;
  return {"5",
          "(12L + 2) b s h (t-1)/t",
          (12.0 * layers + 2.0) * activation * ring_share(as_double(job.layout.tp)),
          2.0 * (per_stage + ends) * activation * ring_share(as_double(job.layout.tp)) *
              as_double(job.train.micro_batches),
          "elements",
          "per rank",
          "a rank of the first stage, all micro-batches; the backward of the unembedding is one all_reduce "
          "more; recompute and parallel "
          "residual "
          "as configured; cross entropy adds 3 all_reduces of b s fp32 on the last stage"};
}

}  // namespace

std::int64_t tensor_all_reduces(const Job& job) {
  const std::int64_t forward = job.model.parallel_residual ? 1 : 2;
  const std::int64_t recompute = job.train.recompute == Recompute::full ? forward : 0;
  constexpr std::int64_t backward = 2;
  constexpr std::int64_t embedding_and_head = 2;
  return job.model.layers * (forward + recompute + backward) + embedding_and_head;
}

std::vector<EquationValue> equations(const Job& job) {
  std::vector<EquationValue> values;
  const bool is_gpt = job.model.family == Family::gpt && job.model.experts == 0;
  if (is_gpt) {
    values.push_back(parameter_equation(job));
  }
  if (const auto fits = rules_of(job).fits_equations; fits != nullptr && !fits(job)) {
    return values;
  }
  if (is_gpt && job.layout.dp > 1) {
    values.push_back(data_equation(job));
  }
  if (job.layout.pp > 1) {
    values.push_back(pipeline_equation(job));
  }
  if (job.layout.tp > 1 && job.model.experts == 0) {
    values.push_back(tensor_equation(job));
  }
  return values;
}

}  // namespace commlens
