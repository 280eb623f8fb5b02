#include "commlens/search/search.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/units.hpp"

namespace commlens {
namespace {

std::string devices_text(const SearchQuestion& question) {
  return fmt::format("{}, {} sequence{}, on {} device{} of {}", question.model.name,
                     with_commas(question.global_batch), question.global_batch == 1 ? "" : "s",
                     with_commas(question.ranks), question.ranks == 1 ? "" : "s", question.machine.name);
}

/// Why no layout divides the devices.
std::string undivided(const SearchQuestion& question, const SearchedRun& searched) {
  TrainingRun any_batch = searched.first().base;
  any_batch.layout.global_batch = any_batch.layout.ranks;
  const std::vector<Degrees> possible = degrees_of(any_batch, searched.first().space);
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

std::string memory_text(double bytes) { return to_text(Bytes{static_cast<std::int64_t>(bytes)}); }

std::string unfitting(const SearchQuestion& question, const SearchedRun& searched, const Ranking& ranking) {
  const RankedLayout& smallest = ranking.smallest;
  return fmt::format("{}: memory binds: the smallest of {} layouts ({}) needs {} of {}; take more devices",
                     devices_text(question), with_commas(ranking.evaluated),
                     layout_text(smallest.layout, smallest.behaviour), memory_text(smallest.memory_bytes),
                     memory_text(searched.memory_limit));
}

Result<SearchAnswer> answered(const SearchQuestion& question, SearchedRun searched, std::size_t most) {
  if (degrees_of(searched.first().base, searched.first().space).empty()) {
    return failure(undivided(question, searched));
  }
  SearchAnswer answer;
  answer.ranking = ranked_layouts(searched.spaces, {searched.memory_limit, std::max<std::size_t>(most, 1)});
  if (answer.ranking.fastest.empty()) {
    return failure(unfitting(question, searched, answer.ranking));
  }
  answer.changes = changes_of(searched.spaces, answer.ranking.fastest.front(), searched.memory_limit);
  answer.searched = std::move(searched);
  return answer;
}

/// The fastest layout of the question, or the shortest reason why there is none.
ScalePoint scale_point(const SearchQuestion& question, const RunCalibration& calibration) {
  ScalePoint point;
  point.ranks = question.ranks;
  const Result<SearchedRun> searched = searched_run(question, calibration);
  if (!searched) {
    point.reason = searched.error().message;
    return point;
  }
  const Ranking ranking = ranked_layouts(searched->spaces, {searched->memory_limit, 1});
  point.evaluated = ranking.evaluated;
  if (ranking.evaluated == 0) {
    point.reason = "the model or the batch cannot be divided";
  } else if (ranking.fastest.empty()) {
    point.reason = fmt::format("memory: at least {}", memory_text(ranking.smallest.memory_bytes));
  } else {
    point.layout = ranking.fastest.front();
    point.mfu = mfu_of(searched->first().base, point.layout);
  }
  return point;
}

/// A layout without the layers that fill up a stage, which are not the model's.
TrainingRun unpadded_run_of(const TrainingRun& base, const RankedLayout& layout) {
  TrainingRun run = run_of(base, layout);
  run.model.layers = base.model.layers;
  return run;
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
      .and_then([&](SearchedRun searched) { return answered(question, std::move(searched), most); });
}

Result<ScaleAnswer> scaled_search(const SearchQuestion& question, const RunCalibration& calibration) {
  return check_sizes(question)
      .and_then([&] { return searched_run(question, calibration); })
      .and_then([&](SearchedRun searched) -> Result<ScaleAnswer> {
        ScaleAnswer answer;
        answer.searched = std::move(searched);
        SearchQuestion each = question;
        for (std::int64_t ranks = question.ranks; ranks > 0; ranks = ranks % 2 == 0 ? ranks / 2 : 0) {
          each.ranks = ranks;
          answer.points.push_back(scale_point(each, calibration));
        }
        std::reverse(answer.points.begin(), answer.points.end());
        const bool has_layout = std::any_of(answer.points.begin(), answer.points.end(),
                                            [](const ScalePoint& point) { return point.reason.empty(); });
        if (!has_layout) {
          return failure(
              fmt::format("{}, and on fewer: {}", devices_text(question), answer.points.back().reason));
        }
        return answer;
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
  const TrainingRun run = unpadded_run_of(base, layout);
  return model_flops(run) / peak_of_precision(run) / layout.seconds;
}

TimeRange range_of(const SearchedRun& searched, const RankedLayout& layout) {
  const TimedSpace& timed = searched.of(layout.layout.data_kind);
  return range_of(run_of(timed.base, layout), timed.basis, layout.seconds);
}

}  // namespace commlens
