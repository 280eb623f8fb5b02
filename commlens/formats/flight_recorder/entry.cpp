#include "commlens/formats/flight_recorder/entry.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/json_members.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/io/torch_tensors.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::flight_recorder {
namespace {

using FlightJson = nlohmann::json;

constexpr std::int64_t k_largest_flight_buffer = std::int64_t{1} << 50;  // 1 PiB

/// A time; JSON dumps write 0 for one that has not come.
std::optional<std::int64_t> flight_time(const FlightJson& value) {
  const std::optional<std::int64_t> time = json_whole(value);
  return time && *time > 0 ? time : std::nullopt;
}

std::optional<std::int64_t> element_count(const FlightJson& dimensions) {
  std::int64_t elements = 1;
  for (const FlightJson& dimension : dimensions) {
    const std::int64_t size = json_whole(dimension).value_or(-1);
    if (size < 0 || (size > 0 && elements > k_largest_flight_buffer / size)) {
      return std::nullopt;
    }
    elements *= size;
  }
  return dimensions.is_array() ? std::optional(elements) : std::nullopt;
}

/// `sizes` holds the dimensions of each tensor, `types` the element type of each.
FlightBuffer buffer_of(const FlightJson& sizes, const FlightJson& types) {
  FlightBuffer buffer;
  if (!sizes.is_array()) {
    return buffer;
  }
  std::int64_t bytes = 0;
  for (std::size_t tensor = 0; tensor < sizes.size(); ++tensor) {
    const bool is_typed = types.is_array() && !types.empty();
    const std::optional<DType> dtype =
        is_typed ? torch_dtype(json_word(types[std::min(tensor, types.size() - 1)])) : std::nullopt;
    const std::optional<std::int64_t> elements = element_count(sizes[tensor]);
    if (!dtype || !elements || bytes > k_largest_flight_buffer) {
      return buffer;
    }
    buffer.dtype = tensor == 0 || buffer.dtype == *dtype ? *dtype : DType::uint8;
    bytes += *elements * size_of(*dtype);
  }
  buffer.bytes = bytes;
  return buffer;
}

/// "send 1->2" and "recv 3<-0": what is left of the text is the name.
void take_pair(std::string& text, FlightEntry& entry) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) {
    return;
  }
  const std::string_view pair = std::string_view(text).substr(blank + 1);
  const std::size_t sends = pair.find("->");
  const std::size_t receives = pair.find("<-");
  const std::size_t arrow = std::min(sends, receives);
  if (arrow != std::string_view::npos) {
    const Result<std::int64_t> left = parse_integer(pair.substr(0, arrow));
    const Result<std::int64_t> right = parse_integer(pair.substr(arrow + 2));
    if (left && right) {
      entry.source = sends < receives ? *left : *right;
      entry.destination = sends < receives ? *right : *left;
    }
  }
  text.resize(blank);
}

FlightEntry::State state_of(const FlightJson& value) {
  const std::string text = json_word(value);
  return text == "completed"   ? FlightEntry::State::completed
         : text == "started"   ? FlightEntry::State::started
         : text == "scheduled" ? FlightEntry::State::scheduled
                               : FlightEntry::State::unknown;
}

/// The ranks of a group, "[0, 1]" or an array of them; std::nullopt if that cannot be read.
std::optional<std::vector<std::int64_t>> flight_ranks(const FlightJson& listed) {
  if (!listed.is_array()) {
    return whole_numbers(json_word(listed));
  }
  std::vector<std::int64_t> ranks;
  ranks.reserve(listed.size());
  for (const FlightJson& rank : listed) {
    const std::optional<std::int64_t> number = json_whole(rank);
    if (!number) {
      return std::nullopt;
    }
    ranks.push_back(*number);
  }
  return ranks;
}

std::string site_of(const FlightJson& frames) {
  if (!frames.is_array()) {
    return {};
  }
  for (const FlightJson& frame : frames) {
    if (is_program_frame(frame)) {
      const std::string file = json_word(json_at(frame, "filename"));
      const std::size_t slash = file.rfind('/');
      return fmt::format("{}:{} {}", slash == std::string::npos ? file : file.substr(slash + 1),
                         json_word(json_at(frame, "line")), json_word(json_at(frame, "name")));
    }
  }
  return {};
}

}  // namespace

bool is_program_frame(const nlohmann::json& frame) {
  const std::string file = json_word(json_at(frame, "filename"));
  return !file.empty() && file != "??" && file.find("/torch/") == std::string::npos &&
         !file.ends_with(".cpp");
}

std::optional<FlightEntry> flight_entry(const nlohmann::json& json) {
  FlightEntry entry;
  entry.name = json_word(json_at(json, "profiling_name"));
  if (const std::size_t colon = entry.name.find(':'); colon != std::string::npos) {
    entry.name.erase(0, colon + 1);
  }
  if (entry.name.empty()) {
    return std::nullopt;
  }
  take_pair(entry.name, entry);
  const FlightJson& group = json_at(json, "process_group");
  entry.group = json_word(group.is_array() && !group.empty() ? group[0] : group);
  entry.pg_id = json_word(json_at(json, "pg_id"));
  entry.sequence = json_whole(json, "collective_seq_id").value_or(-1);
  entry.sequence = entry.sequence < 0 ? json_whole(json, "seq_id").value_or(-1) : entry.sequence;
  entry.pair_sequence = json_whole(json, "p2p_seq_id").value_or(-1);
  const FlightJson& is_pair = json_at(json, "is_p2p");
  entry.is_pair = is_pair.is_boolean() ? is_pair.get<bool>() : entry.source.has_value();
  entry.input = buffer_of(json_at(json, "input_sizes"), json_at(json, "input_dtypes"));
  entry.output = buffer_of(json_at(json, "output_sizes"), json_at(json, "output_dtypes"));
  entry.state = state_of(json_at(json, "state"));
  entry.created_ns = flight_time(json_at(json, "time_created_ns"));
  entry.completed_ns = flight_time(json_at(json, "time_discovered_completed_ns"));
  const FlightJson& duration = json_at(json, "duration_ms");
  if (duration.is_number() && duration.get<double>() >= 0 && duration.get<double>() < 1e12) {
    entry.duration_ns = std::llround(duration.get<double>() * 1e6);
  }
  entry.site = site_of(json_at(json, "frames"));
  return entry;
}

void add_flight_groups(const nlohmann::json& pg_config, TorchGroups& groups) {
  if (!pg_config.is_object()) {
    return;
  }
  for (const auto& [key, config] : pg_config.items()) {
    const auto numbers = flight_ranks(json_at(config, "ranks"));
    TorchGroup group;
    for (const std::int64_t rank : numbers.value_or(std::vector<std::int64_t>())) {
      group.ranks.push_back(Rank{rank});
    }
    group.size = static_cast<std::int64_t>(group.ranks.size());
    const bool is_possible = std::all_of(group.ranks.begin(), group.ranks.end(), [](Rank rank) {
      return rank.value >= 0 && rank.value < k_max_ranks;
    });
    if (numbers && is_possible && group.size > 0) {
      const std::string name = json_word(json_at(config, "name"));
      groups.add(name.empty() ? key : name, group);
      groups.add(key, group);
    }
  }
}

}  // namespace commlens::formats::flight_recorder
