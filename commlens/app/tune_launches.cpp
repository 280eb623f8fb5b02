#include "commlens/app/tune_launches.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_members.hpp"
#include "commlens/app/launch_bursts.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/file_lock.hpp"
#include "commlens/base/table.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

TuneLaunchRow key_of(const TunedMessage& message) {
  return {.op = std::string(bench::name_of(message.timed.op)),
          .dtype = std::string(name_of(message.timed.dtype)),
          .ranks = message.timed.ranks,
          .bytes = message.timed.bytes().value,
          .algorithm = {},
          .medians = {}};
}

bool is_of(const TuneLaunchRow& row, const TuneLaunchRow& key, const std::string& algorithm) {
  return row.op == key.op && row.dtype == key.dtype && row.ranks == key.ranks && row.bytes == key.bytes &&
         row.algorithm == algorithm;
}

/// Launches that count as one.
using TuneBurst = std::vector<const TuneLaunch*>;

std::vector<TuneBurst> tune_bursts(const std::vector<TuneLaunch>& launches) {
  std::vector<std::optional<std::int64_t>> began_ns;
  for (const TuneLaunch& launch : launches) {
    began_ns.emplace_back(launch.began_ns);
  }
  std::vector<TuneBurst> bursts;
  for (const std::vector<std::size_t>& burst : launch_bursts(began_ns)) {
    TuneBurst& added = bursts.emplace_back();
    for (const std::size_t launch : burst) {
      added.push_back(&launches[launch]);
    }
  }
  return bursts;
}

/// A message made in one way in the launches of a burst.
tune::LaunchMedians burst_medians(const TuneBurst& burst, const TuneLaunchRow& key,
                                  const std::string& algorithm) {
  std::vector<tune::LaunchMedians> medians;
  for (const TuneLaunch* const launch : burst) {
    const auto row = std::ranges::find_if(
        launch->rows, [&](const TuneLaunchRow& one) { return is_of(one, key, algorithm); });
    medians.push_back(row == launch->rows.end() ? tune::LaunchMedians() : row->medians);
  }
  return tune::launch_medians_together(medians);
}

/// The ways to make a message, each over all bursts.
std::vector<tune::LaunchedVariant> launched_variants(const TunedMessage& message,
                                                     const std::vector<TuneBurst>& bursts) {
  const TuneLaunchRow key = key_of(message);
  std::vector<tune::LaunchedVariant> variants;
  for (const tune::Variant& variant : message.variants) {
    tune::LaunchedVariant& added = variants.emplace_back();
    added.algorithm = variant.algorithm;
    for (const TuneBurst& burst : bursts) {
      added.launches.push_back(burst_medians(burst, key, variant.algorithm));
    }
  }
  return variants;
}

Table launch_table(const TuneLaunch& launch) {
  Table table(columns({"op", "dtype", "group_size", "message_bytes", "algorithm", "even_round_count",
                       "even_default_s", "even_time_s", "odd_round_count", "odd_default_s", "odd_time_s"}));
  const auto time = [](const tune::HalfMedians& half, double seconds) {
    return half.rounds > 0 ? Cell(seconds) : Cell();
  };
  for (const TuneLaunchRow& row : launch.rows) {
    const auto& [even, odd] = row.medians;
    table.add({row.op, row.dtype, row.ranks, Bytes{row.bytes},
               row.algorithm.empty() ? Cell() : Cell(row.algorithm), even.rounds, time(even, even.default_s),
               time(even, even.time_s), odd.rounds, time(odd, odd.default_s), time(odd, odd.time_s)});
  }
  return table;
}

tune::HalfMedians half_from(JsonMembers& members, const std::string& half) {
  tune::HalfMedians medians{.rounds = members.count((half + "_round_count").c_str(), 0)};
  if (medians.rounds > 0) {
    medians.default_s = members.time_s((half + "_default_s").c_str());
    medians.time_s = members.time_s((half + "_time_s").c_str());
  }
  return medians;
}

TuneLaunch tune_launch_from(const nlohmann::json& object, const std::string& where, std::string& wrong) {
  JsonMembers members(object, where, wrong);
  TuneLaunch launch;
  if (!wrong.empty()) {
    return launch;
  }
  launch.seed = members.seed("seed");
  launch.began_ns = members.unix_time("began_unix_ns");
  launch.rounds = members.count("round_count", 0);
  for (const nlohmann::json& entry : members.list("rows")) {
    JsonMembers row(entry, fmt::format("{}, row {}", where, launch.rows.size() + 1), wrong);
    if (!wrong.empty()) {
      break;
    }
    launch.rows.push_back({.op = row.word("op"),
                           .dtype = row.word("dtype"),
                           .ranks = row.count("group_size", 1),
                           .bytes = row.count("message_bytes", 0),
                           .algorithm = row.is_null("algorithm") ? std::string() : row.word("algorithm"),
                           .medians = {.even = half_from(row, "even"), .odd = half_from(row, "odd")}});
  }
  return launch;
}

Result<std::vector<TuneLaunch>> parsed_launches(const std::string& file, const std::string& content,
                                                const TuneResult& now) {
  const nlohmann::json document = nlohmann::json::parse(content, nullptr, false);
  if (!document.is_object() || document.value("schema", nlohmann::json()) != k_tune_schema) {
    return failure(fmt::format("--append {}: is no result of tune; choose another file", file));
  }
  std::string wrong;
  JsonMembers members(document, "", wrong);
  const std::string messages = members.name("messages_of");
  const std::string library = members.name("library");
  const std::int64_t ranks = members.count("rank_count", 1);
  std::vector<TuneLaunch> launches;
  for (const nlohmann::json& launch : members.list("launches")) {
    launches.push_back(tune_launch_from(launch, fmt::format("launch {}", launches.size() + 1), wrong));
  }
  if (!wrong.empty()) {
    return failure(fmt::format("--append {}: is damaged: {}; choose another file", file, wrong));
  }
  if (messages != now.messages || library != now.library || ranks != now.ranks) {
    return failure(fmt::format(
        "--append {}: holds launches of {} on {} ranks over {}, and this job has {} on {} over {}; choose "
        "another file",
        file, messages, ranks, library, now.messages, now.ranks, now.library));
  }
  return Result<std::vector<TuneLaunch>>(std::move(launches));
}

/// Fails where launches have messages that this job does not make.
Result<void> check_same_messages(const std::string& file, const std::vector<TuneLaunch>& launches,
                                 const TunedMessages& found) {
  for (const TuneLaunch& launch : launches) {
    for (const TuneLaunchRow& row : launch.rows) {
      const bool is_known = std::ranges::any_of(found.messages, [&](const TunedMessage& message) {
        return is_of(row, key_of(message), row.algorithm);
      });
      if (!is_known) {
        return failure(fmt::format(
            "--append {}: holds launches of other messages, as {} of {} on {} ranks; choose another file",
            file, row.op, to_text(Bytes{row.bytes}), row.ranks));
      }
    }
  }
  return {};
}

}  // namespace

TuneLaunch tune_launch_of(const TunedMessages& found, std::uint64_t seed, std::int64_t began_ns) {
  TuneLaunch launch{.seed = seed, .began_ns = began_ns, .rounds = found.rounds, .rows = {}};
  for (const TunedMessage& message : found.messages) {
    for (const tune::Variant& variant : message.variants) {
      TuneLaunchRow row = key_of(message);
      row.algorithm = variant.algorithm;
      row.medians = tune::launch_medians(message.variants.front(), variant);
      if (row.medians.even.rounds + row.medians.odd.rounds > 0) {
        launch.rows.push_back(std::move(row));
      }
    }
  }
  return launch;
}

void decide_over(TunedMessages& found, const std::vector<TuneLaunch>& launches,
                 const tune::SelectionOptions& selection) {
  const std::vector<TuneBurst> bursts = tune_bursts(launches);
  found.timed_launches = std::ssize(launches);
  found.launches = std::ssize(bursts);
  if (found.timed_launches == 1) {
    return;
  }
  std::vector<std::vector<tune::LaunchedVariant>> variants;
  for (TunedMessage& message : found.messages) {
    variants.push_back(launched_variants(message, bursts));
    message.decision = tune::decide_over_launches(variants.back(), selection.least_gain);
  }
  settle_decisions(found, [&](std::size_t place) {
    std::vector<tune::LaunchedMessage> step;
    for (std::size_t at = 0; at < found.messages.size(); ++at) {
      const TunedMessage& message = found.messages[at];
      step.push_back(
          {variants[at], message.has_rule() ? message.decision.variant : 0, message.calls_of_class[place]});
    }
    return tune::step_gain_over_launches(step);
  });
}

nlohmann::ordered_json tune_launches_json(const std::vector<TuneLaunch>& launches) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TuneLaunch& launch : launches) {
    list.push_back({{"seed", launch.seed},
                    {"began_unix_ns", launch.began_ns},
                    {"round_count", launch.rounds},
                    {"rows", rows_json(launch_table(launch))}});
  }
  return list;
}

Result<std::vector<TuneLaunch>> tune_launches_in(const std::string& file, const TuneResult& now) {
  constexpr std::int64_t k_most_bytes = std::int64_t{256} << 20;
  std::error_code unreadable;
  const auto size = std::filesystem::file_size(file, unreadable);
  if (unreadable || size == 0) {
    return std::vector<TuneLaunch>();
  }
  return read_text_file(file, k_most_bytes).and_then([&](const std::string& content) {
    return parsed_launches(file, content, now);
  });
}

Result<void> append_launches(const std::string& file, TuneResult& result,
                             const tune::SelectionOptions& selection) {
  const FileLock lock(file);
  Result<std::vector<TuneLaunch>> earlier = tune_launches_in(file, result);
  if (!earlier) {
    return tl::unexpected(earlier.error());
  }
  return check_same_messages(file, *earlier, result.tuned).map([&] {
    std::vector<TuneLaunch> launches = std::move(*earlier);
    launches.insert(launches.end(), result.launches.begin(), result.launches.end());
    result.launches = std::move(launches);
    decide_over(result.tuned, result.launches, selection);
    write_file_atomically(file, rendered(result, Format::json));
  });
}

}  // namespace commlens
