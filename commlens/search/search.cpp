#include "commlens/search/search.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/units.hpp"

namespace commlens {
namespace {

std::string devices_text(const SearchQuestion& question) {
  return fmt::format(
      "{} of {} on {} devices of {}", question.model.name,
      question.global_batch == 1 ? "1 sequence" : fmt::format("{} sequences", question.global_batch),
      question.ranks, question.machine.name);
}

/// Why no layout divides the devices.
std::string undivided(const SearchQuestion& question, const SearchedRun& searched) {
  TrainingRun any_batch = searched.base;
  any_batch.layout.global_batch = searched.base.layout.ranks;
  const std::vector<Degrees> possible = degrees_of(any_batch, searched.space);
  if (possible.empty()) {
    return fmt::format(
        "{} devices cannot be divided over {}: {} layers, {} heads and a sequence of {} leave no degrees "
        "whose product they are",
        question.ranks, question.model.name, question.model.layers, question.model.heads,
        question.model.sequence);
  }
  std::int64_t least = possible.front().data;
  for (const Degrees& degrees : possible) {
    least = std::min(least, degrees.data);
  }
  return fmt::format(
      "--global-batch {}: {} on {} devices has at least {} data ranks, and no number of them that is "
      "possible "
      "divides the batch",
      question.global_batch, question.model.name, question.ranks, least);
}

std::string unfitting(const SearchQuestion& question, const SearchedRun& searched, const Ranking& ranking) {
  const RankedLayout& smallest = *ranking.smallest;
  return fmt::format("{}: memory binds: the smallest of {} layouts ({}) needs {} of {}; take more devices",
                     devices_text(question), ranking.evaluated,
                     layout_text(smallest.layout, smallest.behaviour),
                     to_text(Bytes{static_cast<std::int64_t>(smallest.memory_bytes)}),
                     to_text(Bytes{static_cast<std::int64_t>(searched.memory_limit)}));
}

Result<SearchAnswer> answered(const SearchQuestion& question, SearchedRun searched,
                              const RunCalibration& calibration, std::size_t most) {
  if (degrees_of(searched.base, searched.space).empty()) {
    return failure(undivided(question, searched));
  }
  SearchAnswer answer;
  answer.basis = basis_of(searched.base, calibration);
  answer.ranking =
      ranked_layouts(searched.base, answer.basis.coefficients, searched.space,
                     {searched.memory_limit, answer.basis.spread, std::max<std::size_t>(most, 1)});
  if (answer.ranking.fastest.empty()) {
    return failure(unfitting(question, searched, answer.ranking));
  }
  answer.changes = changes_of(searched.base, answer.ranking.fastest.front(), answer.basis.coefficients,
                              searched.space, searched.memory_limit);
  answer.searched = std::move(searched);
  return answer;
}

Result<void> check_sizes(const SearchQuestion& question) {
  if (question.ranks < 1 || question.global_batch < 1 || question.model.sequence < 1) {
    return failure("devices, sequences and their length are positive");
  }
  return {};
}

}  // namespace

Result<SearchAnswer> search(const SearchQuestion& question, const RunCalibration& calibration,
                            std::size_t most) {
  return check_sizes(question)
      .and_then([&] { return searched_run(question, calibration); })
      .and_then(
          [&](SearchedRun searched) { return answered(question, std::move(searched), calibration, most); });
}

Result<ScaleAnswer> scaled_search(const SearchQuestion& question, const RunCalibration& calibration) {
  return check_sizes(question)
      .and_then([&] { return searched_run(question, calibration); })
      .and_then([&](SearchedRun searched) -> Result<ScaleAnswer> {
        ScaleAnswer answer;
        answer.basis = basis_of(searched.base, calibration);
        answer.searched = std::move(searched);
        SearchQuestion each = question;
        bool has_layout = false;
        for (std::int64_t ranks = question.ranks; ranks > 0; ranks = ranks % 2 == 0 ? ranks / 2 : 0) {
          each.ranks = ranks;
          ScalePoint& point = answer.points.emplace_back();
          point.ranks = ranks;
          const Result<SearchAnswer> found = search(each, calibration, 1);
          if (found) {
            point.layout = found->ranking.fastest.front();
            point.evaluated = found->ranking.evaluated;
            point.mfu = mfu_of(found->searched.base, point.layout);
            has_layout = true;
          } else {
            point.reason = found.error().message;
          }
        }
        const std::string reason = answer.points.front().reason;
        std::reverse(answer.points.begin(), answer.points.end());
        return has_layout ? Result<ScaleAnswer>(std::move(answer)) : failure(reason);
      });
}

std::string layout_text(const RunLayout& layout, const RunBehaviour& behaviour) {
  std::string text = fmt::format("tp {}, pp {}, dp {}", layout.tensor, layout.pipeline, layout.data());
  const auto add = [&](bool is_shown, const std::string& part) { text += is_shown ? ", " + part : ""; };
  add(layout.context > 1, fmt::format("cp {}", layout.context));
  add(layout.expert > 1, fmt::format("ep {}", layout.expert));
  add(layout.virtual_stages > 1, fmt::format("{} chunks", layout.virtual_stages));
  add(true, fmt::format("micro-batch {}", layout.micro_batch));
  add(layout.data() * layout.context > 1, name_of(layout.data_kind, layout.shard_group));
  add(behaviour.recompute != Recompute::none, fmt::format("{} recomputation", name_of(behaviour.recompute)));
  add(layout.has_sequence_parallel, "sequence parallel");
  return text;
}

double mfu_of(const TrainingRun& base, const RankedLayout& layout) {
  return model_flops(run_of(base, layout)) / (layout.seconds * base.hardware.peak);
}

}  // namespace commlens
