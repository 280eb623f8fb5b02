#include "commlens/formats/kineto/events.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include <simdjson.h>

#include "commlens/base/sums.hpp"
#include "commlens/formats/io/json_stream.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::kineto {
namespace {

namespace od = simdjson::ondemand;

static_assert(JsonStream::k_padding >= simdjson::SIMDJSON_PADDING);

constexpr std::int64_t k_furthest_ns = std::int64_t{1} << 61;

std::string_view without_trailing_blanks(std::string_view text) {
  while (!text.empty() &&
         (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

std::string_view inside_quotes(std::string_view text) {
  return text.size() >= 2 && text.front() == '"' && text.back() == '"' ? text.substr(1, text.size() - 2)
                                                                       : text;
}

/// Text of a number or string, the latter without its quotes and as it is between them.
std::string_view text_of(od::value& value) {
  return inside_quotes(without_trailing_blanks(value.raw_json_token()));
}

/// Text of any value; consumes it.
std::string_view json_of(od::value& value) {
  od::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) {
    return {};
  }
  std::string_view text;
  if (type == od::json_type::array) {
    od::array array;
    return value.get_array().get(array) == simdjson::SUCCESS &&
                   array.raw_json().get(text) == simdjson::SUCCESS
               ? text
               : std::string_view();
  }
  return type == od::json_type::object ? std::string_view() : without_trailing_blanks(value.raw_json_token());
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && stop == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::uint64_t hashed(std::uint64_t seed, std::string_view text) {
  for (const char c : text) {  // FNV-1a
    seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return seed;
}

/// "1.5e+03", which JSON allows and PyTorch does not write.
std::optional<std::int64_t> scientific_nanoseconds(std::string_view microseconds) {
  double value = 0;
  const char* const end = std::to_address(microseconds.end());
  const auto [stop, failed] = std::from_chars(std::to_address(microseconds.begin()), end, value);
  if (failed != std::errc() || stop != end || !(std::abs(value) < static_cast<double>(k_furthest_ns) / 1e3)) {
    return std::nullopt;
  }
  return std::llround(value * 1e3);
}

/// Where each argument goes.
void take_argument(KinetoEvent& event, std::string_view key, od::value& value) {
  KinetoMetadata& meta = event.metadata;
  const auto number = [&](std::optional<std::int64_t>& into) { into = integer_of(text_of(value)); };
  const auto text = [&](std::string& into) { into = text_of(value); };
  if (key == "correlation") {
    number(event.correlation);
  } else if (key == "External id" || key == "external id") {
    number(event.external);
  } else if (key == "Collective name") {
    text(meta.collective);
  } else if (key == "In msg nelems") {
    number(meta.in_elements);
  } else if (key == "Out msg nelems") {
    number(meta.out_elements);
  } else if (key == "Group size") {
    number(meta.group_size);
  } else if (key == "dtype") {
    text(meta.dtype);
  } else if (key == "Process Group Name") {
    text(meta.group_name);
  } else if (key == "Process Group Ranks") {
    meta.group_ranks = inside_quotes(json_of(value));
  } else if (key == "Rank") {
    number(meta.rank);
  } else if (key == "Src Rank") {
    number(meta.source);
  } else if (key == "Dst Rank") {
    number(meta.destination);
  } else if (key == "Global rank start") {
    number(meta.rank_start);
  } else if (key == "Global rank stride") {
    number(meta.rank_stride);
  } else if (key == "Input Dims" || key == "Input dims") {
    event.input_dims = json_of(value);
  } else if (key == "Input type") {
    event.input_types = json_of(value);
  }
}

std::string_view text_of(const od::raw_json_string& key) {
  const char* end = key.raw();  // the parser has seen the closing quote
  while (*end != '"' && *end != '\\') {
    ++end;
  }
  return {key.raw(), static_cast<std::size_t>(end - key.raw())};
}

/// Calls `take` with each key and value; false where the JSON is broken or `take` says so.
template <typename Take>
bool for_each_field(od::object& object, const Take& take) {
  for (auto field : object) {
    od::raw_json_string key;
    od::value value;
    if (field.key().get(key) != simdjson::SUCCESS || field.value().get(value) != simdjson::SUCCESS) {
      return false;
    }
    if (!take(text_of(key), value)) {
      return false;
    }
  }
  return true;
}

bool needs_arguments(KinetoRole role) {
  return role == KinetoRole::kernel || role == KinetoRole::launch || role == KinetoRole::collective ||
         role == KinetoRole::product;
}

/// Collects the fields of one event, as far as its role needs them.
class EventReader {
 public:
  explicit EventReader(KinetoEvent& event) : event_(event) {}

  /// False where the JSON is broken.
  bool read(od::object& object) {
    for (auto field : object) {
      od::raw_json_string key;
      od::value value;
      if (field.key().get(key) != simdjson::SUCCESS || field.value().get(value) != simdjson::SUCCESS ||
          !take(text_of(key), value)) {
        return false;
      }
      if (is_of_no_use()) {
        return true;  // the parser skips the rest
      }
    }
    return true;
  }

 private:
  bool take(std::string_view key, od::value& value) {
    if (key == "ph") {
      event_.phase = text_of(value);
    } else if (key == "cat") {
      event_.category = text_of(value);
      has_category_ = true;
    } else if (key == "name") {
      event_.name = text_of(value);
      has_name_ = true;
    } else if (key == "ts") {
      event_.start_ns = nanoseconds_of(text_of(value));
    } else if (key == "dur") {
      event_.duration_ns = nanoseconds_of(text_of(value));
    } else if (key == "pid") {
      event_.thread ^= hashed(0xcbf29ce484222325ULL, text_of(value));
    } else if (key == "tid") {
      event_.thread ^= hashed(0x84222325cbf29ce4ULL, text_of(value));
    } else if (key == "args") {
      return take_arguments(value);
    }
    if (!role_ && has_category_ && has_name_) {
      role_ = role_of(event_.category, event_.name);
    }
    return true;
  }

  bool take_arguments(od::value& value) {
    od::object arguments;
    if (role_ && !needs_arguments(*role_)) {
      return true;
    }
    if (value.get_object().get(arguments) != simdjson::SUCCESS) {
      return true;  // "args": "" and the like
    }
    return for_each_field(arguments, [&](std::string_view key, od::value& argument) {
      take_argument(event_, key, argument);
      return true;
    });
  }

  bool is_of_no_use() const {
    return (!event_.phase.empty() && event_.phase != "X") || role_ == KinetoRole::none;
  }

  KinetoEvent& event_;
  std::optional<KinetoRole> role_;
  bool has_category_ = false;
  bool has_name_ = false;
};

/// Takes events of `run` up to the first that is no JSON; whether it came to the end.
bool read_run(std::string_view run, od::parser& parser, const KinetoSink& take, KinetoRun& result) {
  od::document document;
  od::array elements;
  if (parser.iterate(run.data(), run.size(), run.size() + JsonStream::k_padding).get(document) !=
          simdjson::SUCCESS ||
      document.get_array().get(elements) != simdjson::SUCCESS) {
    return false;
  }
  for (auto element : elements) {
    od::object object;
    KinetoEvent event;
    const simdjson::error_code error = element.get_object().get(object);
    if (error == simdjson::INCORRECT_TYPE) {
      ++result.invalid;
      continue;
    }
    if (error != simdjson::SUCCESS || !EventReader(event).read(object)) {
      return false;
    }
    ++result.events;
    take(event);
  }
  return true;
}

/// What a group's "ranks": [0, 1, …] lists; nothing where one of them is no rank.
std::vector<Rank> ranks_of(od::array array) {
  std::vector<Rank> ranks;
  for (auto element : array) {
    std::int64_t rank = 0;
    if (element.get_int64().get(rank) != simdjson::SUCCESS || rank < 0 || rank >= k_max_ranks) {
      return {};
    }
    ranks.push_back(Rank{rank});
  }
  return ranks;
}

void read_group(od::object& object, KinetoJob& job) {
  std::string name;
  std::vector<Rank> ranks;
  std::optional<std::int64_t> size;
  const bool is_read = for_each_field(object, [&](std::string_view key, od::value& value) {
    if (key == "pg_name") {
      name = text_of(value);
    } else if (key == "pg_size" || key == "group_size") {
      size = integer_of(text_of(value));
    } else if (key == "ranks") {
      od::array array;
      if (value.get_array().get(array) == simdjson::SUCCESS) {
        ranks = ranks_of(array);
      }
    }
    return true;
  });
  if (!is_read || name.empty()) {
    return;
  }
  if (size && *size > 0 && *size <= k_max_ranks) {
    job.group_sizes[name] = *size;
  }
  if (!ranks.empty()) {
    job.groups[name] = std::move(ranks);
  }
}

/// The groups up to the first that is no object.
void read_groups(od::value& value, KinetoJob& job) {
  od::array groups;
  if (value.get_array().get(groups) != simdjson::SUCCESS) {
    return;
  }
  for (auto element : groups) {
    od::object group;
    if (element.get_object().get(group) != simdjson::SUCCESS) {
      return;
    }
    read_group(group, job);
  }
}

}  // namespace

KinetoRole role_of(std::string_view category, std::string_view name) {
  if (category == "kernel" || category == "Kernel") {
    return KinetoRole::kernel;
  }
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
      category == "hip_runtime" || category == "xpu_runtime") {
    return KinetoRole::launch;
  }
  if (category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" || category == "Memset") {
    return KinetoRole::memory;
  }
  const bool is_annotation = category == "user_annotation";
  if (!is_annotation && category != "cpu_op" && category != "Operator") {
    return KinetoRole::none;
  }
  if (name.starts_with("ProfilerStep")) {
    return KinetoRole::step;
  }
  if (name == "record_param_comms" || name.starts_with("c10d::")) {
    return KinetoRole::collective;
  }
  if (name == "aten::mm" || name == "aten::addmm") {
    return KinetoRole::product;
  }
  constexpr std::array<std::string_view, 6> backends = {"nccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:"};
  const bool is_call = std::any_of(backends.begin(), backends.end(),
                                   [&](std::string_view backend) { return name.starts_with(backend); });
  return is_call ? KinetoRole::collective : KinetoRole::none;
}

KinetoRun read_kineto_events(std::string_view run, const KinetoSink& take) {
  static thread_local od::parser parser;
  KinetoRun result;
  if (read_run(run, parser, take, result)) {
    return result;
  }
  // Something in it is no JSON: the rest one by one, so that only the broken events are lost.
  const std::vector<std::string_view> elements = elements_of(run);
  for (auto at = static_cast<std::size_t>(result.events + result.invalid); at < elements.size(); ++at) {
    std::string alone = "[";
    alone.append(elements[at]).append("]");
    const std::size_t size = alone.size();
    alone.append(JsonStream::k_padding, '\0');
    if (!read_run(std::string_view(alone).substr(0, size), parser, take, result)) {
      ++result.invalid;
    }
  }
  return result;
}

KinetoJob read_kineto_job(std::string_view json) {
  KinetoJob job;
  od::parser parser;
  od::document document;
  od::object object;
  const simdjson::padded_string text(json);
  if (parser.iterate(text).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS) {
    return job;
  }
  for_each_field(object, [&](std::string_view key, od::value& value) {
    if (key == "rank") {
      job.rank = integer_of(text_of(value));
    } else if (key == "world_size") {
      job.world_size = integer_of(text_of(value));
    } else if (key == "pg_config") {
      read_groups(value, job);
    }
    return true;
  });
  return job;
}

std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds) {
  const bool is_negative = microseconds.starts_with('-');
  const std::string_view digits = microseconds.substr(is_negative ? 1 : 0);
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') {
    return std::nullopt;
  }
  std::int64_t value = 0;
  int decimals = -1;  // after the point, once there is one
  int first_dropped = 0;
  for (const char c : digits) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c < '0' || c > '9') {
      return scientific_nanoseconds(microseconds);
    } else if (decimals < 3) {
      if (value > k_furthest_ns / 10) {
        return std::nullopt;
      }
      value = value * 10 + (c - '0');
      decimals += decimals >= 0 ? 1 : 0;
    } else if (decimals++ == 3) {
      first_dropped = c - '0';
    }
  }
  for (int place = std::max(decimals, 0); place < 3; ++place) {
    if (value > k_furthest_ns / 10) {
      return std::nullopt;
    }
    value *= 10;
  }
  value += first_dropped >= 5 ? 1 : 0;
  return is_negative ? -value : value;
}

std::vector<std::int64_t> element_counts(std::string_view dims) {
  constexpr std::int64_t most = std::int64_t{1} << 50;  // more is no tensor
  std::vector<std::int64_t> counts;
  std::int64_t product = 1;
  std::int64_t number = -1;  // the one being read
  bool is_innermost = false;
  for (const char c : dims) {
    if (c >= '0' && c <= '9') {
      number = std::min(std::max<std::int64_t>(number, 0) * 10 + (c - '0'), most);
      continue;
    }
    product = number >= 0 ? saturating_product(product, number) : product;
    number = -1;
    if (c == '[') {
      is_innermost = true;
      product = 1;
    } else if (c == ']' && is_innermost) {
      counts.push_back(product);
      is_innermost = false;
    }
  }
  return counts;
}

std::vector<std::vector<std::int64_t>> dimensions_of(std::string_view dims) {
  std::vector<std::vector<std::int64_t>> lists;
  const std::size_t outer = dims.find('[');
  if (outer == std::string_view::npos) {
    return lists;
  }
  const char* const end = std::to_address(dims.end());
  for (const char* at = std::to_address(dims.begin()) + outer + 1; at != end;) {
    std::int64_t number = 0;
    const auto [stop, failed] = std::from_chars(at, end, number);
    if (failed == std::errc() && !lists.empty()) {
      lists.back().push_back(number);
    } else if (*at == '[') {
      lists.emplace_back();
    }
    at = stop == at ? at + 1 : stop;
  }
  return lists;
}

std::string first_type(std::string_view types) {
  const std::size_t open = types.find('"');
  const std::size_t close = types.find('"', open + 1);
  return close == std::string_view::npos ? std::string()
                                         : std::string(types.substr(open + 1, close - open - 1));
}

}  // namespace commlens::formats::kineto
