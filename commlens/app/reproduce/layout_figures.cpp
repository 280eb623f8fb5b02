// Figures 3 and 4: what there is to choose, and where ranks are.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens::study {
namespace {

const Series& program_series() {
  static const Series series{"commlens", Evidence::exact, "the lists that the program itself has"};
  return series;
}

}  // namespace

ItemResult sweep_space(Study&) {
  Sheet sheet({"what", "value", "count"});
  const auto add = [&](const char* what, const std::vector<std::string>& values) {
    sheet.add({what, fmt::format("{}", fmt::join(values, ", ")), std::ssize(values)}, program_series());
  };
  std::vector<std::string> names;
  for (const FrameworkRules& rules : frameworks()) {
    names.emplace_back(rules.name);
  }
  add("frameworks", names);
  names.clear();
  for (const std::string_view name : preset_names()) {
    names.emplace_back(name);
  }
  add("models by name, and any by its configuration", names);
  add("parallelism", {"data", "ZeRO-1, 2, 3 and ++", "fully sharded", "hybrid sharded", "tensor", "sequence",
                      "context", "pipeline", "interleaved pipeline", "expert"});
  add("communication libraries whose calls are recorded", {"Open MPI", "MPICH", "NCCL", "RCCL"});
  names.clear();
  for (const EmbeddedFile& file : built_in_machines()) {
    names.emplace_back(file.stem());
  }
  add("machines by name, and any by its description", names);
  Item item{
      whole_of(
          sheet,
          "The choices that a study of communication goes through, and those of them that commlens covers: "
          "every configuration of the first rows can be predicted, on every machine of the last one "
          "simulated.",
          {FigureKind::table, {}, {"series", "evidence", "provenance"}}),
      {}};
  return item;
}

ItemResult rank_grid(Study& study) {
  const Result<Plan> plan = study.plan("1.3B", k_neox, {.dp = 2, .tp = 2, .pp = 2});
  if (!plan) {
    return no_figure(plan.error().message);
  }
  const ParallelLayout& layout = plan->job.layout;
  const std::int64_t layers = plan->job.model.layers;
  Sheet sheet({"rank", Column{"pp", "stage"}, Column{"dp", "data"}, Column{"tp", "tensor"}, "layers_text",
               "tensor_peer_rank", "data_peer_rank", Column{"destination_rank", "sends to"}});
  const auto rank_at = [&](std::int64_t pp, std::int64_t dp, std::int64_t tp) {
    return tp + layout.tp * (dp + layout.dp * pp);
  };
  for (std::int64_t rank = 0; rank < layout.ranks; ++rank) {
    const std::int64_t tp = rank % layout.tp;
    const std::int64_t dp = rank / layout.tp % layout.dp;
    const std::int64_t pp = rank / layout.tp / layout.dp;
    const std::int64_t first = pp * layers / layout.pp;
    sheet.add({rank, pp, dp, tp, fmt::format("{} to {}", first, first + layers / layout.pp - 1),
               rank_at(pp, dp, 1 - tp), rank_at(pp, 1 - dp, tp),
               pp + 1 < layout.pp ? Cell(rank_at(pp + 1, dp, tp)) : Cell()},
              {"GPT-NeoX's order of ranks", Evidence::exact,
               "the mesh that predictions use: tensor ranks are neighbours, then data ranks, then stages"});
  }
  Item item{
      whole_of(
          sheet,
          "Three-dimensional parallelism with two data ranks, two pipeline stages and two tensor ranks, of "
          "1.3B: where each of the eight ranks is, and with whom it reduces activations (tensor), gradients "
          "(data) and exchanges messages (pipeline).",
          {FigureKind::table, {}, {"series", "evidence", "provenance"}}),
      {}};
  return item;
}

}  // namespace commlens::study
