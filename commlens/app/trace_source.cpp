#include "commlens/app/trace_source.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "commlens/app/job_source.hpp"
#include "commlens/app/result_files.hpp"
#include "commlens/base/text.hpp"
#include "commlens/base/units.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/report/coverage_report.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_head = std::size_t{64} << 10;

bool is_config(const std::string& argument) {
  std::error_code status;
  if (!std::filesystem::exists(argument, status)) {
    return preset(argument).has_value();
  }
  if (!std::filesystem::is_regular_file(argument, status)) {
    return false;
  }
  const Result<std::string> head = formats::read_head(argument, k_head);
  return head && !sniff_config(argument, *head).empty();
}

bool some_importer_knows(const std::string& argument, const std::string& head) {
  return std::any_of(formats::importers().begin(), formats::importers().end(),
                     [&](const formats::Importer& importer) { return importer.sniff(argument, head); });
}

/// What a configuration without a model, or one that its rules refuse, does not get.
std::string hint_to_predict(const std::string& argument) {
  const bool is_predicted =
      read_config({argument}, "")
          .and_then([](const Job& job) { return Planner({}, false).plan(job, {}, Rank{0}); })
          .has_value();
  return is_predicted ? fmt::format("; try commlens predict {}", argument) : "";
}

Result<Iteration> parse_iteration(std::string_view text) {
  const Result<std::int64_t> value = parse_integer(text);
  if (!value || *value < k_init_iteration || *value > INT32_MAX) {
    return failure(
        fmt::format("'{}' is not an iteration (-1 is initialisation, then 0, 1, …)", text.substr(0, 40)));
  }
  return static_cast<Iteration>(*value);
}

}  // namespace

bool names_trace(const std::string& argument) {
  std::error_code status;
  if (argument == "-" || std::filesystem::is_directory(argument, status)) {
    return true;
  }
  if (!std::filesystem::exists(argument, status)) {
    return false;
  }
  if (!std::filesystem::is_regular_file(argument, status)) {
    return true;  // a pipe
  }
  const Result<std::string> head = formats::read_head(argument, k_head);
  if (!head) {
    return !is_config(argument);
  }
  return some_importer_knows(argument, *head) || !is_config(argument);
}

bool is_case_file(const std::string& argument) {
  std::error_code status;
  if (!std::filesystem::is_regular_file(argument, status)) {
    return false;
  }
  const Result<std::string> head = formats::read_head(argument, k_head);
  return head && sniff_config(argument, *head) == k_case_file;
}

std::vector<std::string> files_of(const std::string& argument) {
  std::error_code status;
  std::vector<std::string> files;
  std::size_t start = 0;
  if (!std::filesystem::exists(argument, status)) {
    for (std::size_t plus = argument.find('+'); plus != std::string::npos; plus = argument.find('+', start)) {
      files.push_back(argument.substr(start, plus - start));
      start = plus + 1;
    }
  }
  files.push_back(argument.substr(start));
  return files;
}

std::vector<std::string> all_files_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    const std::vector<std::string> own = files_of(argument);
    files.insert(files.end(), own.begin(), own.end());
  }
  return files;
}

std::string shown_name(const std::string& argument) { return argument == "-" ? "standard input" : argument; }

Result<Trace> open_trace(const Events& events, const std::string& argument) {
  if (names_result(argument)) {
    return failure(fmt::format(
        "{} is a result of commlens search, simulate or bench, not a trace; try commlens report {}", argument,
        argument));
  }
  if (!names_trace(argument)) {
    return is_config(argument)
               ? failure(
                     fmt::format("{} is a configuration, not a trace{}", argument, hint_to_predict(argument)))
               : failure(fmt::format("{}: no such file or directory; check the path", argument));
  }
  std::string cut_off;
  Result<Trace> trace = [&] {
    const Task task(events, fmt::format("reading {}", shown_name(argument)), 0);
    return formats::import_any(argument, &cut_off);
  }();
  if (!cut_off.empty()) {
    events.warn(cut_off);
  }
  return trace;
}

void warn_of_lost_calls(const Events& events, const std::string& argument, const Trace& trace) {
  std::map<std::string, std::int64_t> lost;
  for (const auto& [reason, count] : trace.provenance.skipped) {
    if (reason.find("lost") != std::string::npos || reason.find("not recorded") != std::string::npos) {
      lost.emplace(reason, count);
    }
  }
  if (!lost.empty()) {
    events.warn(fmt::format("{} lacks calls of the job: {}", shown_name(argument), reasons_text(lost)));
  }
}

Result<void> check_takes_config(const std::vector<std::string>& config) {
  namespace fs = std::filesystem;
  if (config.empty()) {
    return failure("no configuration is given; name a file, or a model such as 1.3B");
  }
  for (const std::string& argument : config) {
    std::error_code status;
    if (argument == "-" || fs::is_fifo(argument, status)) {
      return failure(fmt::format("{}: a configuration cannot come through a pipe; name a file", argument));
    }
    if (is_config(argument) || preset(argument)) {
      continue;
    }
    const bool is_file = fs::is_regular_file(argument, status);
    const Result<std::string> head = is_file ? formats::read_head(argument, k_head) : failure("no file");
    if ((head && some_importer_knows(argument, *head)) || is_trace(argument)) {
      return failure(
          fmt::format("{} is a trace, not a configuration; try commlens summary {}", argument, argument));
    }
  }
  return {};
}

std::int64_t ranks_of_job(const Trace& trace) {
  if (const std::optional<Mesh> mesh = trace.groups.mesh()) {
    return mesh->ranks();
  }
  std::int64_t ranks = trace.job_ranks();
  std::set<GroupId> seen;
  for (const CommOp& op : trace.ops()) {
    if (!seen.insert(op.group).second) {
      continue;
    }
    for (const Rank member : trace.groups.members(op.group, Rank{0})) {
      ranks = std::max(ranks, member.value + 1);
    }
  }
  return ranks;
}

Result<void> check_groups_are_known(const Trace& trace) {
  const auto is_hidden = [&](const CommOp& op) {
    return trace.groups.size(op.group) > 1 && !trace.groups.knows_members(op.group);
  };
  if (std::any_of(trace.ops().begin(), trace.ops().end(), is_hidden)) {
    return failure(
        "--gpus-per-node: the trace has groups of which only the size is known, not the ranks; import the "
        "files of "
        "all ranks together, or leave the flag out");
  }
  return {};
}

Result<std::optional<IterationRange>> iteration_range(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const std::size_t dash = text.find('-', 1);  // a leading '-' is a sign
  const Result<Iteration> first = parse_iteration(std::string_view(text).substr(0, dash));
  if (!first) {
    return failure(
        fmt::format("--iteration {}: {}; write FIRST-LAST or FIRST-", text, first.error().message));
  }
  if (dash == std::string::npos) {
    return IterationRange{*first, *first};
  }
  if (dash + 1 == text.size()) {
    return IterationRange{*first, INT32_MAX};
  }
  const Result<Iteration> last = parse_iteration(std::string_view(text).substr(dash + 1));
  if (!last || *last < *first) {
    return failure(fmt::format("--iteration {}: {}; write FIRST-LAST or FIRST-", text,
                               last ? "the last comes before the first" : last.error().message));
  }
  return IterationRange{*first, *last};
}

std::string range_text(const IterationRange& range) {
  return range.first == range.second ? fmt::format("{}", range.first)
         : range.second == INT32_MAX ? fmt::format("{}-", range.first)
                                     : fmt::format("{}-{}", range.first, range.second);
}

}  // namespace commlens
