#include "commlens/app/report_facts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/job_text.hpp"
#include "commlens/base/table.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string count_text(std::int64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", with_commas(count), count == 1 ? one : many);
}

std::string model_fact(const ModelConfig& model) {
  return fmt::format(
      "{}: {}, hidden {}, {}, vocabulary {}{}", model.name.empty() ? "model" : model.name,
      count_text(model.layers, "layer", "layers"), with_commas(model.hidden),
      count_text(model.heads, "head", "heads"), with_commas(model.vocab),
      model.experts > 0 ? fmt::format(", {} experts, top {}", model.experts, model.top_k) : "");
}

std::string layout_fact(const Job& job) {
  const ParallelLayout& layout = job.layout;
  std::string text =
      fmt::format("{} = dp {} × tp {} × pp {}, cp {}, ep {}", count_text(layout.ranks, "rank", "ranks"),
                  layout.dp, layout.tp, layout.pp, layout.cp, layout.ep);
  for (const MeshAxis& more : layout.more_axes) {
    text += fmt::format(", {} {}", name_of(more.axis), more.size);
  }
  text += layout.replicate > 1 ? fmt::format(", replicate {}", layout.replicate) : "";
  text += layout.virtual_stages > 1 ? fmt::format(", {} virtual stages", layout.virtual_stages) : "";
  return text + (layout.sequence_parallel ? ", sequence parallel" : "");
}

std::string batch_fact(const Job& job) {
  const std::int64_t sequences = sequences_per_iteration(job);
  return fmt::format(
      "global {} ({} tokens) = micro-batch {} × {} × {} replicas", with_commas(sequences),
      with_commas(sequences * job.model.sequence), job.train.micro_batch,
      count_text(job.train.micro_batches, "micro-batch", "micro-batches"),
      with_commas(sequences / std::max<std::int64_t>(1, job.train.micro_batch * job.train.micro_batches)));
}

/// "20.1 GiB of a rank of stage 0, the fullest; 18.0 GiB of stage 3, the emptiest".
std::string memory_fact(const Job& job) {
  const Bytes most = memory_per_rank(job).total();
  const std::int64_t stages = job.layout.pp;
  if (stages <= 1) {
    return fmt::format("{}, every rank alike (estimated)", to_text(most));
  }
  std::int64_t fullest = 0;
  std::int64_t emptiest = 0;
  std::vector<Bytes> memory;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    memory.push_back(memory_of_stage(job, stage).total());
    fullest = memory.back() > memory[static_cast<std::size_t>(fullest)] ? stage : fullest;
    emptiest = memory.back() < memory[static_cast<std::size_t>(emptiest)] ? stage : emptiest;
  }
  const auto of = [&](std::int64_t stage) { return to_text(memory[static_cast<std::size_t>(stage)]); };
  return fmt::format(
      "{} on ranks of pipeline stage {}, the fullest; {} of stage {}, the emptiest (estimated)", of(fullest),
      fullest, of(emptiest), emptiest);
}

std::string flops_fact(const Job& job, Flops per_rank) {
  constexpr double tera = 1e12;
  const double one = per_rank.value / tera;
  return fmt::format("{:.4g} TFLOP of a rank (mean), {:.4g} of all, an iteration", one,
                     one * static_cast<double>(job.layout.ranks));
}

Facts job_facts(const Side& side) {
  const Job& job = *side.planned;
  const bool recomputes = job.train.recompute != Recompute::none;
  Facts facts = {{"model", model_fact(job.model)},
                 {"parameters", with_commas(parameter_count(job.model).value)},
                 {"layout", layout_fact(job)},
                 {"sharding", sharding_text(job)},
                 {"sequence", count_text(job.model.sequence, "token", "tokens")},
                 {"batch", batch_fact(job)},
                 {"element type", dtype_text(job) + (recomputes ? ", recompute " + recompute_text(job) : "")},
                 {"memory", memory_fact(job)}};
  if (side.flops_per_rank.value > 0) {
    facts.emplace_back("computing", flops_fact(job, side.flops_per_rank));
  }
  facts.emplace_back("rules", side.trace.provenance.framework +
                                  (side.unverified.empty() ? "" : ", not all of them measured"));
  return facts;
}

Facts trace_facts(const Trace& trace) {
  const Provenance& provenance = trace.provenance;
  Facts facts = {{"source", provenance.producer.empty()
                                ? std::string(name_of(provenance.source))
                                : fmt::format("{}, {}", name_of(provenance.source), provenance.producer)}};
  if (!provenance.description.empty()) {
    facts.emplace_back("job", provenance.description);
  }
  if (!provenance.framework.empty()) {
    facts.emplace_back("rules", provenance.framework);
  }
  std::string ranks =
      count_text(trace.groups.mesh() ? trace.groups.mesh()->ranks() : trace.job_ranks(), "rank", "ranks");
  if (trace.groups.mesh()) {
    std::vector<std::string> axes;
    for (const MeshAxis& axis : trace.groups.mesh()->dense().axes()) {
      axes.push_back(fmt::format("{} {}", name_of(axis.axis), axis.size));
    }
    ranks += axes.empty() ? "" : fmt::format(" = {}", fmt::join(axes, " × "));
  }
  facts.emplace_back("layout", ranks);
  return facts;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> facts_of(const Side& side) {
  return side.planned ? job_facts(side) : trace_facts(side.trace);
}

}  // namespace commlens
