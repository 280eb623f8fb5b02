#include "commlens/app/job_text.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

std::string degrees_text(const ParallelLayout& layout) {
  std::string text = fmt::format("dp {} x tp {} x pp {}", layout.dp, layout.tp, layout.pp);
  for (const auto& [name, degree] :
       {std::pair("cp", layout.cp), std::pair("ep", layout.ep), std::pair("replicate", layout.replicate),
        std::pair("virtual stages", layout.virtual_stages)}) {
    text += degree > 1 ? fmt::format(", {} {}", name, degree) : "";
  }
  for (const MeshAxis& more : layout.more_axes) {
    text += fmt::format(", {} {}", name_of(more.axis), more.size);
  }
  const bool is_default = layout.order == ParallelLayout::k_default_order;
  return text + (layout.sequence_parallel ? ", sequence parallel" : "") +
         (is_default ? "" : fmt::format(", ranks in order {}", layout.order));
}

std::string_view name_of(Recompute recompute) {
  return recompute == Recompute::none ? "none" : recompute == Recompute::selective ? "selective" : "full";
}

}  // namespace

std::string dtype_text(const Job& job) {
  const auto computes_in = rules_of(job).settings.compute_dtype;
  const DType dtype = computes_in == nullptr ? job.train.dtype : computes_in(job);
  return dtype == job.train.dtype
             ? std::string(name_of(dtype))
             : fmt::format("{} (computes in {})", name_of(job.train.dtype), name_of(dtype));
}

std::string sharding_text(const Job& job) {
  const auto text = rules_of(job).settings.sharding_text;
  return text == nullptr ? fmt::format("ZeRO-{}", job.train.zero_stage) : text(job);
}

std::string recompute_text(const Job& job) { return std::string(name_of(job.train.recompute)); }

std::string parameters_text(const ModelConfig& model) {
  return fmt::format("{}: {} parameters", model.name.empty() ? "model" : model.name,
                     with_commas(parameter_count(model).value));
}

std::string layout_text(const Job& job) {
  const bool recomputes = job.train.recompute != Recompute::none;
  return fmt::format("{} rank{} = {}, {}; sequence {}, micro-batch {}, {} micro-batch{}, {}{}",
                     with_commas(job.layout.ranks), job.layout.ranks == 1 ? "" : "s",
                     degrees_text(job.layout), sharding_text(job), job.model.sequence, job.train.micro_batch,
                     job.train.micro_batches, job.train.micro_batches == 1 ? "" : "es", dtype_text(job),
                     recomputes ? fmt::format(", recompute {}", name_of(job.train.recompute)) : "");
}

std::string attention_text(const Job& job) {
  const Attention attention = attention_of(job);
  Job usual = job;
  usual.train.attention.reset();
  const bool is_shown = attention != Attention::eager || attention != attention_of(usual);
  return is_shown ? fmt::format(", {} attention", name_of(attention)) : "";
}

Json model_json(const ModelConfig& model) {
  return {{"name", model.name},
          {"parameters", parameter_count(model).value},
          {"parameters_paper", is_dense_gpt(model) ? Json(paper_parameter_count(model).value) : Json()},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"sequence", model.sequence},
          {"vocab", model.vocab}};
}

Json layout_json(const Job& job) {
  const ParallelLayout& layout = job.layout;
  Json json = {{"ranks", layout.ranks},
               {"dp", layout.dp},
               {"tp", layout.tp},
               {"pp", layout.pp},
               {"cp", layout.cp},
               {"ep", layout.ep},
               {"zero", job.train.zero_stage},
               {"replicate", layout.replicate},
               {"sequence_parallel", layout.sequence_parallel},
               {"virtual_stages", layout.virtual_stages},
               {"micro_batch", job.train.micro_batch},
               {"micro_batches", job.train.micro_batches},
               {"dtype", name_of(job.train.dtype)},
               {"recompute", name_of(job.train.recompute)},
               {"attention", name_of(attention_of(job))}};
  for (const MeshAxis& more : layout.more_axes) {
    json[std::string(name_of(more.axis))] = more.size;
  }
  if (layout.order != ParallelLayout::k_default_order) {
    json["order"] = layout.order;
  }
  if (rules_of(job).settings.sharding_text != nullptr) {
    json["sharding"] = sharding_text(job);
  }
  return json;
}

bool is_dense_gpt(const ModelConfig& model) { return model.family == Family::gpt && model.experts == 0; }

}  // namespace commlens
