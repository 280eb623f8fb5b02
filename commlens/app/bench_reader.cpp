#include "commlens/app/bench_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"

namespace commlens {
namespace {

using BenchJson = nlohmann::json;

constexpr double k_longest_ns = 1e18;  // 30 years
constexpr std::int64_t k_most_count = std::int64_t{1} << 50;

/// The members of an object. What is not as it must be is noted, the first time for all that share `wrong`.
class BenchMembers {
 public:
  BenchMembers(const BenchJson& object, std::string where, std::string& wrong)
      : object_(object), where_(std::move(where)), wrong_(wrong) {
    if (!object.is_object()) {
      note(fmt::format("{} is no object", where_.empty() ? "it" : where_));
    }
  }

  std::string word(const char* key) {
    constexpr std::size_t k_longest = 100;
    const BenchJson& value = at(key);
    const bool is_word = value.is_string() && !value.get_ref<const std::string&>().empty() &&
                         value.get_ref<const std::string&>().size() <= k_longest &&
                         std::ranges::all_of(value.get_ref<const std::string&>(),
                                             [](char each) { return each >= ' ' && each <= '~'; });
    return is_word ? value.get<std::string>() : noted(key, "no word", std::string());
  }
  /// Any text.
  std::string name(const char* key) {
    const BenchJson& value = at(key);
    return value.is_string() ? value.get<std::string>() : noted(key, "no text", std::string());
  }
  std::int64_t count(const char* key, std::int64_t least) {
    const BenchJson& value = at(key);
    const bool is_count = value.is_number_integer() && !is_above(value) &&
                          value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= k_most_count;
    return is_count ? value.get<std::int64_t>()
                    : noted(key, fmt::format("no whole number from {} on", least), least);
  }
  /// Nanoseconds since 1970.
  std::int64_t unix_time(const char* key) {
    const BenchJson& value = at(key);
    const bool is_time =
        value.is_number_unsigned() &&
        value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    return is_time ? value.get<std::int64_t>() : noted(key, "no time since 1970", std::int64_t{0});
  }
  std::uint64_t seed(const char* key) {
    const BenchJson& value = at(key);
    return value.is_number_unsigned() ? value.get<std::uint64_t>()
                                      : noted(key, "no whole number from 0 on", std::uint64_t{0});
  }
  bool boolean(const char* key) {
    const BenchJson& value = at(key);
    return value.is_boolean() ? value.get<bool>() : noted(key, "neither true nor false", false);
  }
  /// A list, empty where it is none.
  const BenchJson& list(const char* key) {
    static const BenchJson none = BenchJson::array();
    const BenchJson& value = at(key);
    if (!value.is_array()) {
      note_at(key, "no list");
    }
    return value.is_array() ? value : none;
  }
  /// A time that is not null, above 0.
  double seconds(const char* key) {
    const std::optional<double> time = optional_seconds(key);
    return time && *time > 0 ? *time : noted(key, "no time above 0", 1.0);
  }
  /// A time, or a difference of times; absent where it is null.
  std::optional<double> optional_seconds(const char* key) {
    const BenchJson& value = at(key);
    if (value.is_null()) {
      return std::nullopt;
    }
    const double time = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    return time >= -k_longest_ns && time <= k_longest_ns
               ? std::optional(time * 1e-9)
               : noted(key, "no time in nanoseconds", std::optional<double>());
  }
  bool is_null(const char* key) const { return at(key).is_null(); }
  void note(const std::string& what) {
    if (wrong_.empty()) {
      wrong_ = what;
    }
  }

 private:
  /// Null where there is none.
  const BenchJson& at(const char* key) const {
    static const BenchJson none;
    const auto found = object_.find(key);
    return found == object_.end() ? none : *found;
  }
  static bool is_above(const BenchJson& value) {
    return value.is_number_unsigned() &&
           value.get<std::uint64_t>() > static_cast<std::uint64_t>(k_most_count);
  }
  void note_at(const char* key, const std::string& what) {
    note(fmt::format("{}{}{} is {}", where_, where_.empty() ? "" : ": ", key, what));
  }
  template <typename Value>
  Value noted(const char* key, const std::string& what, Value value) {
    note_at(key, what);
    return value;
  }

  const BenchJson& object_;
  std::string where_;
  std::string& wrong_;
};

std::vector<bench::RowFlag> flags_from(BenchMembers& members) {
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

BenchLaunchRow launch_row_from(BenchMembers members) {
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
  BenchMembers members(object, where, wrong);
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
    BenchMembers row_members(row, where_row, wrong);
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
  BenchMembers members(object, "", wrong);
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
