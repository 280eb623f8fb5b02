#include "commlens/formats/deepspeed_log/lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/text_search.hpp"

namespace commlens::formats::deepspeed_log {
namespace {

constexpr std::string_view k_caller = "| [Caller Func: ";
constexpr std::string_view k_verbose = "comm op: ";
constexpr std::string_view k_time = "| time (ms): ";
constexpr std::string_view k_size = "| msg size: ";

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status != std::errc::invalid_argument && end == text.data() + text.size();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_part(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == ':' || c == '-';
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 200 && !is_digit(text.front()) && text.front() != '-' &&
         text.front() != '.' && text.front() != ':' && std::all_of(text.begin(), text.end(), is_name_part);
}

/// The power of 1024 of a unit: "B" 0, "KB" 1, …
std::optional<int> power_of(std::string_view unit) {
  constexpr std::array<std::string_view, 6> units = {"B", "KB", "MB", "GB", "TB", "PB"};
  const auto* const found = std::find(units.begin(), units.end(), unit);
  return found == units.end() ? std::nullopt : std::optional<int>(found - units.begin());
}

/// A size at the front of `words` and how many words it takes: "0B" or "2.0 KB".
std::optional<std::pair<PrintedSize, std::size_t>> leading_size(std::span<const std::string_view> words) {
  if (words.empty()) {
    return std::nullopt;
  }
  const std::string_view first = words.front();
  const auto digits = static_cast<std::size_t>(
      std::find_if(first.begin(), first.end(), [](char c) { return !is_digit(c) && c != '.'; }) -
      first.begin());
  const bool is_apart = digits == first.size() && words.size() > 1;
  const std::optional<PrintedSize> size =
      printed_size(first.substr(0, digits), is_apart ? words[1] : first.substr(digits));
  if (!size) {
    return std::nullopt;
  }
  return std::pair(*size, is_apart ? std::size_t{2} : std::size_t{1});
}

}  // namespace

std::optional<PrintedSize> printed_size(std::string_view number, std::string_view unit) {
  constexpr std::int64_t largest = std::int64_t{1} << 50;  // 1 PiB, as in calls files
  constexpr std::size_t most_digits = 15;
  const std::optional<int> power = power_of(unit);
  const std::size_t dot = std::min(number.find('.'), number.size());
  std::string digits(number.substr(0, dot));
  digits += dot < number.size() ? number.substr(dot + 1) : std::string_view();
  const bool are_digits = !digits.empty() && std::all_of(digits.begin(), digits.end(), is_digit);
  if (!power || !are_digits || digits.size() > most_digits) {
    return std::nullopt;
  }
  const auto decimals = static_cast<int>(number.size() - std::min(dot + 1, number.size()));
  const double unit_bytes = std::ldexp(1.0, 10 * *power);
  const double bytes = std::stod(digits) * unit_bytes / std::pow(10.0, decimals);
  if (bytes > static_cast<double>(largest)) {
    return std::nullopt;
  }
  PrintedSize size;
  size.size.value = std::llround(bytes);
  if (*power > 0) {
    size.rounding.value = std::llround(std::ceil(unit_bytes * 0.5 / std::pow(10.0, std::max(decimals, 2))));
  }
  return size;
}

std::optional<CommKind> deepspeed_kind(std::string_view name) {
  while (name.starts_with('_')) {
    name.remove_prefix(1);
  }
  constexpr std::array<std::pair<std::string_view, CommKind>, 32> kinds = {
      {{"all_reduce", CommKind::all_reduce},
       {"all_reduce_coalesced", CommKind::all_reduce},
       {"inference_all_reduce", CommKind::all_reduce},
       {"allreduce", CommKind::all_reduce},
       {"all_gather", CommKind::all_gather},
       {"all_gather_into_tensor", CommKind::all_gather},
       {"all_gather_base", CommKind::all_gather},
       {"allgather_base", CommKind::all_gather},
       {"all_gather_object", CommKind::all_gather},
       {"all_gather_coalesced", CommKind::all_gather},
       {"all_gather_into_tensor_coalesced", CommKind::all_gather},
       {"allgather_fn", CommKind::all_gather},
       {"reduce_scatter", CommKind::reduce_scatter},
       {"reduce_scatter_tensor", CommKind::reduce_scatter},
       {"reduce_scatter_base", CommKind::reduce_scatter},
       {"reduce_scatter_coalesced", CommKind::reduce_scatter},
       {"reduce_scatter_tensor_coalesced", CommKind::reduce_scatter},
       {"reduce_scatter_fn", CommKind::reduce_scatter},
       {"all_to_all", CommKind::all_to_all},
       {"all_to_all_single", CommKind::all_to_all},
       {"all_to_all_list", CommKind::all_to_all},
       {"broadcast", CommKind::broadcast},
       {"broadcast_object_list", CommKind::broadcast},
       {"broadcast_coalesced", CommKind::broadcast},
       {"reduce", CommKind::reduce},
       {"send", CommKind::send},
       {"isend", CommKind::send},
       {"recv", CommKind::recv},
       {"irecv", CommKind::recv},
       {"barrier", CommKind::barrier},
       {"monitored_barrier", CommKind::barrier},
       {"log_summary_barrier", CommKind::barrier}}};
  const auto* const found =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& entry) { return entry.first == name; });
  return found == kinds.end() ? std::nullopt : std::optional<CommKind>(found->second);
}

std::optional<LoggedOp> logged_op(std::string_view text) {
  text = trimmed(text);
  const std::size_t caller = text.find(k_caller);
  const std::string_view name = trimmed(text.substr(0, caller));
  if (!is_name(name)) {
    return std::nullopt;
  }
  if (caller == std::string_view::npos) {
    return LoggedOp{std::string(name), {}};
  }
  const std::string_view rest = text.substr(caller + k_caller.size());
  const std::size_t end = rest.find(']');
  if (end > 200 || !trimmed(rest.substr(end + 1)).empty()) {
    return std::nullopt;
  }
  return LoggedOp{std::string(name), std::string(rest.substr(0, end))};
}

std::optional<TableRow> table_row(std::string_view line) {
  constexpr std::size_t most_words = 40;
  constexpr std::size_t fewest_numbers = 4;  // latencies and bandwidths after the count
  const std::vector<std::string_view> words = blank_separated(line, most_words);
  for (std::size_t start = 0; start < words.size(); ++start) {
    const auto size = leading_size(std::span(words).subspan(start));
    const std::size_t at = start + (size ? size->second : 0);
    if (!size || at >= words.size()) {
      continue;
    }
    const Result<std::int64_t> count = parse_integer(words[at]);
    const std::span<const std::string_view> numbers = std::span(words).subspan(at + 1);
    if (count && *count > 0 && numbers.size() >= fewest_numbers &&
        std::all_of(numbers.begin(), numbers.end(), is_number)) {
      return TableRow{size->first, *count};
    }
  }
  return std::nullopt;
}

std::optional<TableHeader> table_header(std::string_view line) {
  const std::size_t start = line.find("Comm. Op");
  if (start == std::string_view::npos || line.find("Message Size", start) == std::string_view::npos ||
      line.find("Count", start) == std::string_view::npos) {
    return std::nullopt;
  }
  return TableHeader{std::string(line.substr(0, start)),
                     line.find("straggler", start) != std::string_view::npos};
}

std::optional<VerboseLine> verbose_line(std::string_view line) {
  const std::size_t start = line.find(k_verbose);
  if (start == std::string_view::npos) {
    return std::nullopt;
  }
  line.remove_prefix(start + k_verbose.size());
  const std::size_t time = line.find(k_time);
  const std::size_t size = line.find(k_size);
  if (time == std::string_view::npos || size == std::string_view::npos || size < time) {
    return std::nullopt;
  }
  const std::optional<LoggedOp> op = logged_op(line.substr(0, time));
  const auto printed = leading_size(blank_separated(line.substr(size + k_size.size()), 2));
  if (!op || !printed) {
    return std::nullopt;
  }
  return VerboseLine{*op, printed->first};
}

}  // namespace commlens::formats::deepspeed_log
