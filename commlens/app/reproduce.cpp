#include "commlens/app/reproduce.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/reproduce/pages.hpp"
#include "commlens/app/reproduce/takeaways.hpp"
#include "commlens/app/version.hpp"
#include "commlens/report/html.hpp"
#include "commlens/report/svg.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A directory that holds another page than ours is not written to.
Result<void> check_reproduction_place(const std::string& directory) {
  if (directory.empty()) {
    return failure("reproduce needs -o DIR, the directory that is written");
  }
  std::error_code status;
  if (!fs::exists(directory, status)) {
    return check_directory_place("-o", directory);
  }
  if (!fs::is_directory(directory, status)) {
    return failure(fmt::format("-o {}: is a file; give the name of a directory", directory));
  }
  constexpr std::size_t head_size = 1024;
  std::ifstream in(fs::path(directory) / "index.html", std::ios::binary);
  std::string head(head_size, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  if (!head.empty() && !is_report(head)) {
    return failure(
        fmt::format("-o {}: has an index.html of another program; choose another directory", directory));
  }
  return check_file_place("-o", (fs::path(directory) / "index.html").string());
}

/// Directories are there before the first file.
void make_directories(const fs::path& directory) {
  for (const char* const part : {"figures", "jobs", "recordings"}) {
    std::error_code status;
    fs::create_directories(directory / part, status);
    if (status) {
      throw SystemError(fmt::format("cannot make {}: {}", (directory / part).string(), status.message()));
    }
  }
}

Table takeaways_table(study::Study& made) {
  Table table(columns({Column{.key = "name", .in_text = false}, "verdict", Column{"what", "claim"},
                       Column{"value", "found"}, "expected", "why", "evidence"}));
  for (const study::Takeaway& takeaway : study::checked_takeaways(made)) {
    table.add({takeaway.id, name_of(takeaway.verdict), takeaway.claim, takeaway.found, takeaway.expected,
               takeaway.why, name_of(takeaway.series.evidence)});
  }
  return table;
}

std::int64_t with_verdict(const Table& takeaways, std::string_view verdict) {
  return std::ssize(study::rows_with(takeaways, "verdict", verdict).rows());
}

std::string verdict_text(const Table& takeaways) {
  const std::int64_t open = with_verdict(takeaways, "open");
  return fmt::format("{} of {} checks of the paper's takeaways pass; {} show where a claim does not hold{}.",
                     with_verdict(takeaways, "PASS"), takeaways.rows().size(),
                     with_verdict(takeaways, "FAIL"),
                     open == 0 ? "" : fmt::format("; {} stay open, and say why", open));
}

class Reproduction {
 public:
  explicit Reproduction(const ReproduceRequest& request) : request_(request), directory_(request.directory) {
    result_.directory = request.directory;
    trainings_ = request.effort == ReproduceRequest::Effort::none    ? std::vector<study::Training>()
                 : request.effort == ReproduceRequest::Effort::quick ? study::quick_trainings()
                                                                     : study::full_trainings();
    if (request.effort != ReproduceRequest::Effort::none) {
      launches_ = study::launched_trainings();
      benches_ =
          request.effort == ReproduceRequest::Effort::quick ? study::quick_benches() : study::full_benches();
    }
  }

  ReproduceResult run() {
    make_directories(directory_);
    study_.keep_jobs_in(directory_ / study::k_jobs_place);
    const bool measures = request_.effort != ReproduceRequest::Effort::none;
    std::int64_t steps = measures ? steps_of(k_dispatches_expected_s) : 0;
    for (const study::ItemEntry& entry : study::item_entries()) {
      steps += steps_of_item(entry, true) + (measures ? steps_of_item(entry, false) : 0);
    }
    for (const study::Training& training : trainings_) {
      steps += steps_of(training.expected_s);
    }
    for (const study::MessageBench& bench : benches_) {
      steps += steps_of(bench.expected_s);
    }
    steps += std::ssize(launches_) * steps_of(k_launch_expected_s);
    Task task(request_.events, "reproducing", steps);
    write(task, true);
    const bool has_measured = measure_all(task);
    const bool has_launched = launch_all(task);
    if ((!trainings_.empty() && train_all(task)) || has_measured || has_launched) {
      write(task, false);
    }
    result_.stopped = result_.stopped || is_stopped();
    return std::move(result_);
  }

 private:
  // Measured beside each other on two cores that others used too: what counts is how long parts take beside
  // others.
  static constexpr double k_launch_expected_s = 14;
  static constexpr double k_dispatches_expected_s = 3;
  static constexpr double k_item_expected_s = 0.5;  // of what is not simulated, or was before
  static std::int64_t steps_of(double expected_s) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(10 * expected_s));
  }

  static std::int64_t steps_of_item(const study::ItemEntry& entry, bool is_first) {
    return steps_of(k_item_expected_s + (is_first ? entry.simulating_s : 0));
  }

  bool is_stopped() const { return request_.stop_requested && request_.stop_requested(); }

  /// Whether any calls were timed. Before the trainings, so that what these leave in memory is not timed.
  bool measure_all(Task& task) {
    for (const study::MessageBench& bench : benches_) {
      if (is_stopped()) {
        break;
      }
      study::measured(bench, request_.stop_requested)
          .map([&](study::MeasuredMessages&& messages) { study_.add(std::move(messages)); })
          .map_error([&](const Error& error) {
            result_.not_recorded.push_back(fmt::format("{}: {}", bench.title, error.message));
          });
      task.add(steps_of(bench.expected_s));
    }
    return !study_.measured_messages().empty();
  }

  /// Whether any calls of several processes, or of tokens to experts, were recorded.
  bool launch_all(Task& task) {
    if (!launches_.empty() && !is_stopped()) {
      study::recorded_dispatches((directory_ / "recordings" / study::k_dispatch_recording).string())
          .map([&](study::RecordedDispatches&& dispatches) { study_.add(std::move(dispatches)); })
          .map_error([&](const Error& error) { result_.not_recorded.push_back(error.message); });
      task.add(steps_of(k_dispatches_expected_s));
    }
    for (const study::LaunchedTraining& launch : launches_) {
      if (is_stopped()) {
        break;
      }
      study::launched(launch, (directory_ / "recordings" / launch.name).string(), request_.stop_requested)
          .map([&](study::RecordedStages&& stages) {
            study_.add(std::move(stages));
            ++result_.trainings;
          })
          .map_error([&](const Error& error) {
            study_.lacks_stages(fmt::format("{}: {}", launch.setting, error.message));
            result_.not_recorded.push_back(study_.stages_not_recorded().back());
          });
      task.add(steps_of(k_launch_expected_s));
    }
    return !study_.stages().empty() || study_.dispatches();
  }

  /// Whether anything was recorded.
  bool train_all(Task& task) {
    for (const study::Training& training : trainings_) {
      if (is_stopped()) {
        break;
      }
      study::recorded(training, (directory_ / "recordings" / training.name).string(), request_.stop_requested)
          .map([&](study::Recording&& recording) {
            study_.add(std::move(recording));
            ++result_.trainings;
          })
          .map_error([&](const Error& error) {
            result_.not_recorded.push_back(fmt::format("{}: {}", training.name, error.message));
            study_.lacks_training(result_.not_recorded.back());
          });
      task.add(steps_of(training.expected_s));
    }
    return result_.trainings > 0;
  }

  void write(Task& task, bool is_first) {
    std::vector<study::MadeItem> items;
    const Result<SvgDrawer> drawer = SvgDrawer::open();
    result_.no_pictures = drawer ? "" : drawer.error().message;
    result_.figures = 0;
    result_.left_out.clear();
    const bool has_results = result_.trainings > 0 || !study_.measured_messages().empty();
    for (const study::ItemEntry& entry : study::item_entries()) {
      if (is_stopped() && !has_results) {
        result_.left_out.push_back(fmt::format("{}: stopped", entry.id));
        continue;
      }
      items.push_back(study::made(entry, study_));
      study::write_item(directory_, items.back(), drawer ? &*drawer : nullptr);
      if (items.back().item) {
        ++result_.figures;
      } else {
        result_.left_out.push_back(fmt::format("{}: {}", entry.id, items.back().item.error().reason));
      }
      task.add(steps_of_item(entry, is_first));
    }
    if (is_stopped() && !has_results) {
      result_.stopped = true;
      return;
    }
    result_.takeaways = takeaways_table(study_);
    const study::PageHead head{"The paper, reproduced: communication of large language models in training",
                               "arXiv 2408.10197, figure by figure: exact theory, recordings of the real "
                               "frameworks, trainings on this "
                               "machine, simulations on described ones. Every series says which it is.",
                               verdict_text(result_.takeaways), with_verdict(result_.takeaways, "FAIL") == 0};
    study::write_pages(directory_, head, items);
  }

  const ReproduceRequest& request_;
  fs::path directory_;
  study::Study study_;
  std::vector<study::Training> trainings_;
  std::vector<study::MessageBench> benches_;
  std::vector<study::LaunchedTraining> launches_;
  ReproduceResult result_;
};

/// What a number is, in few words: lines of takeaways fit into 80 columns.
std::string short_evidence(const std::string& evidence) {
  return evidence == name_of(study::Evidence::recorded_framework) ? "real framework" : evidence;
}

/// Each claim of the paper with what is expected, the checks of it, and why one is open.
std::string takeaways_text(const Table& takeaways, const TextStyle& style) {
  const auto texts_of = [](const Table& table, const char* key) {
    std::vector<std::string> texts;
    const Table column = table.picked({key});
    for (const Cells& row : column.rows()) {
      texts.push_back(row.front().plain());
    }
    return texts;
  };
  std::size_t width = 0;
  for (const std::string& found : texts_of(takeaways, "value")) {
    width = std::max(width, display_width(found));
  }
  std::string text;
  for (const std::string& claim : study::values_of(takeaways, "what")) {
    text += in_colour(claim, Colour::bold, style) + "\n";
    const Table checks = study::rows_with(takeaways, "what", claim);
    const std::vector<std::string> verdicts = texts_of(checks, "verdict");
    const std::vector<std::string> found = texts_of(checks, "value");
    const std::vector<std::string> evidence = texts_of(checks, "evidence");
    const std::vector<std::string> why = texts_of(checks, "why");
    std::string expected;
    for (std::size_t at = 0; at < found.size(); ++at) {
      if (expected != texts_of(checks, "expected")[at]) {
        expected = texts_of(checks, "expected")[at];
        text += fmt::format("  expected: {}\n", expected);
      }
      text += fmt::format("  {}  {}{}  {}\n", verdicts[at], found[at],
                          std::string(width - display_width(found[at]), ' '), short_evidence(evidence[at]));
      text += why[at].empty() ? "" : fmt::format("        {}\n", why[at]);
    }
  }
  return text;
}

std::string reproduction_text(const ReproduceResult& result, const TextStyle& style) {
  if (result.takeaways.rows().empty()) {  // the first pages were not reached
    return fmt::format("stopped: {0}/figures has {1} figures, there is no page\n", result.directory,
                       result.figures);
  }
  std::string text = takeaways_text(result.takeaways, style);
  text += fmt::format("{} of {} checks pass, {} fail, {} are open\n", with_verdict(result.takeaways, "PASS"),
                      result.takeaways.rows().size(), with_verdict(result.takeaways, "FAIL"),
                      with_verdict(result.takeaways, "open"));
  for (const std::string& reason : result.left_out) {
    text += fmt::format("not shown: {}\n", reason);
  }
  text += result.no_pictures.empty() ? "" : fmt::format("no SVG is written: {}\n", result.no_pictures);
  if (!result.not_recorded.empty()) {
    text += fmt::format("trainings that could not be recorded here: {}; {}\n", result.not_recorded.size(),
                        result.not_recorded.front());
  }
  return text +
         fmt::format("{0}/index.html, {0}/paper.md, {0}/figures: {1} figures and tables of the paper{2}\n",
                     result.directory, result.figures,
                     result.stopped ? "; stopped before all trainings were done" : "");
}

nlohmann::ordered_json reproduction_json(const ReproduceResult& result) {
  nlohmann::ordered_json json = {{"schema", "commlens.reproduce/1"}, {"directory", result.directory}};
  json["figures"] = result.figures;
  json["trainings"] = result.trainings;
  json["stopped"] = result.stopped;
  json["left_out"] = result.left_out;
  json["not_recorded"] = result.not_recorded;
  json["no_pictures"] = result.no_pictures;
  json["takeaways"] = rows_json(result.takeaways);
  return json;
}

}  // namespace

Result<ReproduceResult> reproduce(const ReproduceRequest& request) {
  return check_reproduction_place(request.directory).map([&] { return Reproduction(request).run(); });
}

std::string rendered(const ReproduceResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return reproduction_text(result, style); }, [&] { return reproduction_json(result); },
      [&] { return result.takeaways.csv(); });
}

}  // namespace commlens
