#include "commlens/app/bench_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_members.hpp"
#include "commlens/base/file.hpp"

namespace commlens {
namespace {

using BenchJson = nlohmann::json;

std::vector<bench::RowFlag> flags_from(JsonMembers& members) {
  std::vector<bench::RowFlag> flags;
  for (const BenchJson& name : members.list("sample_flags")) {
    const auto flag =
        name.is_string() ? bench::row_flag_from(name.get_ref<const std::string&>()) : std::nullopt;
    if (flag && std::ranges::find(flags, *flag) == flags.end()) {
      flags.push_back(*flag);  // later versions may know others
    }
  }
  return flags;
}

BenchLaunchRow launch_row_from(JsonMembers members) {
  BenchLaunchRow row;
  row.key = {members.word("op"),
             members.word("dtype"),
             members.word("axis"),
             members.is_null("group_size") ? 0 : members.count("group_size", 1),
             members.count("message_bytes", 0),
             members.boolean("in_place")};
  bench::RowStats& stats = row.stats;
  stats.samples = members.count("samples", 1);
  stats.p50_s = members.seconds("p50_ns");
  stats.low_s = members.optional_seconds("p50_low_ns");
  stats.high_s = members.optional_seconds("p50_high_ns");
  stats.min_s = members.optional_seconds("shortest_ns").value_or(0);
  stats.mean_s = members.optional_seconds("mean_ns").value_or(0);
  stats.p95_s = members.optional_seconds("p95_ns");
  stats.p99_s = members.optional_seconds("p99_ns");
  stats.skew_s = members.optional_seconds("entry_skew_ns").value_or(0);
  stats.first_s = members.optional_seconds("first_call_ns").value_or(0);
  stats.flags = flags_from(members);
  row.back_to_back_s = members.optional_seconds("back_to_back_ns");
  if (!members.is_null("wrong_elements")) {
    row.wrong_elements = members.count("wrong_elements", 0);
  }
  return row;
}

BenchLaunch launch_from(const BenchJson& object, const std::string& where, std::string& wrong) {
  JsonMembers members(object, where, wrong);
  BenchLaunch launch;
  if (!object.is_object()) {
    return launch;
  }
  launch.seed = members.seed("seed");
  if (!members.is_null("began_unix_ns")) {
    launch.began_ns = members.unix_time("began_unix_ns");
  }
  launch.clock_error_s = members.optional_seconds("clock_error_ns").value_or(0);
  launch.is_partial = members.boolean("partial");
  std::set<BenchKey> keys;
  for (const BenchJson& row : members.list("rows")) {
    const std::string where_row = fmt::format("{}, row {}", where, launch.rows.size() + 1);
    JsonMembers row_members(row, where_row, wrong);
    if (!wrong.empty()) {
      break;
    }
    launch.rows.push_back(launch_row_from(std::move(row_members)));
    if (!keys.insert(launch.rows.back().key).second) {
      members.note(fmt::format("{} is of the same calls as an earlier one", where_row));
    }
  }
  return launch;
}

BenchRun run_from(const BenchJson& object, std::string& wrong) {
  JsonMembers members(object, "", wrong);
  BenchRun run;
  run.transport = members.word("transport");
  run.ranks = members.count("rank_count", 1);
  const std::string cache = members.word("cache");
  run.is_cold = cache == "cold";
  if (cache != "cold" && cache != "hot") {
    members.note("cache is neither \"hot\" nor \"cold\"");
  }
  if (!members.is_null("transports")) {
    run.table = members.name("transports");
  }
  for (const BenchJson& launch : members.list("launches")) {
    run.launches.push_back(launch_from(launch, fmt::format("launch {}", run.launches.size() + 1), wrong));
    if (!wrong.empty()) {
      break;
    }
  }
  return run;
}

}  // namespace

Result<BenchRun> parse_bench(const std::string& file, std::string_view content) {
  const BenchJson document = BenchJson::parse(content, nullptr, false);
  const auto schema = document.is_object() ? document.find("schema") : document.end();
  if (schema == document.end() || *schema != k_bench_schema) {
    return failure(fmt::format("{}: is no result of bench; write one with --json", file));
  }
  std::string wrong;
  BenchRun run = run_from(document, wrong);
  return wrong.empty() ? Result<BenchRun>(std::move(run))
                       : Result<BenchRun>(failure(fmt::format(
                             "{}: is damaged: {}; measure again, into another file", file, wrong)));
}

Result<std::string> read_bench_text(const std::string& file) {
  constexpr std::int64_t k_most_bytes = std::int64_t{256} << 20;
  return read_text_file(file, k_most_bytes);
}

Result<BenchRun> read_bench(const std::string& file) {
  return read_bench_text(file).and_then(
      [&](const std::string& content) { return parse_bench(file, content); });
}

}  // namespace commlens
