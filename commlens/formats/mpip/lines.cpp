#include "commlens/formats/mpip/lines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::mpip {

std::optional<MpipSection> mpip_section(std::string_view line) {
  constexpr std::string_view opening = "@--- ";
  if (!line.starts_with(opening)) {
    return std::nullopt;
  }
  line.remove_prefix(opening.size());
  if (line.starts_with("Callsites:")) {
    return MpipSection::sites;
  }
  constexpr std::array<std::pair<std::string_view, MpipSection>, 4> tables = {
      {{"Callsite Time statistics (all callsites,", MpipSection::concise},
       {"Callsite Message Sent statistics (all callsites,", MpipSection::concise},
       {"Callsite Time statistics (all", MpipSection::times},
       {"Callsite Message Sent statistics (all", MpipSection::sent}}};
  const auto* const table = std::find_if(tables.begin(), tables.end(),
                                         [&](const auto& each) { return line.starts_with(each.first); });
  return table == tables.end() ? MpipSection::other : table->second;
}

std::optional<MpipNumber> mpip_number(std::string_view text) {
  const Result<double> value = parse_number(text);
  if (!value || *value < 0) {
    return std::nullopt;
  }
  const std::size_t exponent = text.find('e');
  if (exponent == std::string_view::npos) {
    return MpipNumber{*value, 0};
  }
  std::string_view digits = text.substr(exponent + 1);
  digits.remove_prefix(digits.starts_with('+') ? 1 : 0);
  const Result<std::int64_t> power = parse_integer(digits);
  if (!power || *power < 0 || *power > 18) {
    return std::nullopt;
  }
  return MpipNumber{*value, 0.5 * std::pow(10.0, static_cast<double>(*power) - 3)};
}

std::optional<MpipSite> mpip_site(std::string_view line) {
  const std::vector<std::string_view> words = blank_separated(line, 60);
  if (words.size() < 5 || words[1] != "0") {
    return std::nullopt;
  }
  const Result<std::int64_t> site = parse_integer(words[0]);
  if (!site) {
    return std::nullopt;
  }
  // An address has no line beside it.
  const bool has_line = parse_integer(words[3]).has_value();
  MpipSite found{*site, std::string(words[2])};
  if (has_line) {
    found.place += ":" + std::string(words[3]);
  }
  for (std::size_t word = has_line ? 4 : 3; word + 1 < words.size(); ++word) {
    found.place += " " + std::string(words[word]);
  }
  found.place = valid_utf8(found.place);
  return found;
}

std::optional<MpipRow> mpip_row(std::string_view line) {
  const std::vector<std::string_view> words = blank_separated(line, 10);
  if (words.size() < 8 || words.size() > 9) {
    return std::nullopt;
  }
  const auto site = parse_integer(words[1]);
  const auto rank = words[2] == "*" ? Result<std::int64_t>(-1) : parse_integer(words[2]);
  const auto count = parse_integer(words[3]);
  const auto largest = mpip_number(words[4]);
  const auto smallest = mpip_number(words[6]);
  const auto sum = mpip_number(words[7]);
  if (!site || !rank || *rank < -1 || !count || *count < 1 || !largest || !smallest || !sum ||
      !mpip_number(words[5])) {
    return std::nullopt;
  }
  return MpipRow{valid_utf8(words[0]), *site, *rank, *count, *largest, *smallest, *sum};
}

CommKind mpip_kind(std::string_view call) {
  constexpr std::array<std::pair<std::string_view, CommKind>, 20> kinds = {
      {{"Send", CommKind::send},
       {"Isend", CommKind::send},
       {"Bsend", CommKind::send},
       {"Ibsend", CommKind::send},
       {"Ssend", CommKind::send},
       {"Issend", CommKind::send},
       {"Rsend", CommKind::send},
       {"Irsend", CommKind::send},
       {"Sendrecv", CommKind::send},
       {"Sendrecv_replace", CommKind::send},
       {"Isendrecv", CommKind::send},
       {"Isendrecv_replace", CommKind::send},
       {"Allreduce", CommKind::all_reduce},
       {"Iallreduce", CommKind::all_reduce},
       {"Bcast", CommKind::broadcast},
       {"Ibcast", CommKind::broadcast},
       {"Reduce", CommKind::reduce},
       {"Ireduce", CommKind::reduce},
       {"Barrier", CommKind::barrier},
       {"Ibarrier", CommKind::barrier}}};
  const auto* const found =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.first == call; });
  return found == kinds.end() ? CommKind::other : found->second;
}

std::optional<MpipSizes> mpip_sizes(const MpipRow& row) {
  constexpr double largest_sum = 9e15;  // integers are exact in a double
  constexpr double largest_call = 1125899906842624.0;
  const auto calls = static_cast<double>(row.count);
  const double highest = row.largest.value + row.largest.half;
  const double lowest = std::max(0.0, row.smallest.value - row.smallest.half);
  const double slack = calls * 0.5 + row.sum.half;  // of a sum printed with fewer digits than it has
  if (highest > largest_call || row.sum.value > largest_sum || lowest > highest ||
      row.sum.value > highest * calls + slack || row.sum.value < lowest * calls - slack) {
    return std::nullopt;
  }
  MpipSizes sizes;
  const bool is_one_size = row.largest.half == 0 && row.largest.value == row.smallest.value;
  if (is_one_size) {
    sizes.bytes = std::llround(row.largest.value);
    return sizes;
  }
  const std::int64_t sum = std::llround(row.sum.value);
  sizes.bytes = row.sum.half == 0 ? sum / row.count : std::llround(row.sum.value / calls);
  sizes.larger = row.sum.half == 0 ? sum % row.count : 0;
  const auto size = static_cast<double>(sizes.bytes);
  const double above = std::max(0.0, highest - size);
  const double below = std::max(0.0, size + (sizes.larger > 0 ? 1 : 0) - lowest);
  sizes.rounding = static_cast<std::int64_t>(std::ceil(std::max(above, below)));
  return sizes;
}

}  // namespace commlens::formats::mpip
