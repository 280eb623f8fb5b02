#include "commlens/app/json_members.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

using MemberValue = nlohmann::json;

constexpr double k_longest_ns = 1e18;  // 30 years
constexpr std::int64_t k_most_count = std::int64_t{1} << 50;

bool is_above_most(const MemberValue& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(k_most_count);
}

}  // namespace

JsonMembers::JsonMembers(const nlohmann::json& object, std::string where, std::string& wrong)
    : object_(object), where_(std::move(where)), wrong_(wrong) {
  if (!object.is_object()) {
    note(fmt::format("{} is no object", where_.empty() ? "it" : where_));
  }
}

std::string JsonMembers::word(const char* key) {
  constexpr std::size_t k_longest = 100;
  const MemberValue& value = at(key);
  const bool is_word = value.is_string() && !value.get_ref<const std::string&>().empty() &&
                       value.get_ref<const std::string&>().size() <= k_longest &&
                       std::ranges::all_of(value.get_ref<const std::string&>(),
                                           [](char each) { return each >= ' ' && each <= '~'; });
  return is_word ? value.get<std::string>() : noted(key, "no word", std::string());
}

std::string JsonMembers::name(const char* key) {
  const MemberValue& value = at(key);
  return value.is_string() ? value.get<std::string>() : noted(key, "no text", std::string());
}

std::int64_t JsonMembers::count(const char* key, std::int64_t least) {
  const MemberValue& value = at(key);
  const bool is_count = value.is_number_integer() && !is_above_most(value) &&
                        value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= k_most_count;
  return is_count ? value.get<std::int64_t>()
                  : noted(key, fmt::format("no whole number from {} on", least), least);
}

std::int64_t JsonMembers::unix_time(const char* key) {
  const MemberValue& value = at(key);
  const bool is_time = value.is_number_unsigned() &&
                       value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  return is_time ? value.get<std::int64_t>() : noted(key, "no time since 1970", std::int64_t{0});
}

std::uint64_t JsonMembers::seed(const char* key) {
  const MemberValue& value = at(key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>()
                                    : noted(key, "no whole number from 0 on", std::uint64_t{0});
}

bool JsonMembers::boolean(const char* key) {
  const MemberValue& value = at(key);
  return value.is_boolean() ? value.get<bool>() : noted(key, "neither true nor false", false);
}

const nlohmann::json& JsonMembers::list(const char* key) {
  static const MemberValue none = MemberValue::array();
  const MemberValue& value = at(key);
  if (!value.is_array()) {
    note_at(key, "no list");
  }
  return value.is_array() ? value : none;
}

double JsonMembers::seconds(const char* key) {
  const std::optional<double> time = optional_seconds(key);
  return time && *time > 0 ? *time : noted(key, "no time above 0", 1.0);
}

std::optional<double> JsonMembers::optional_seconds(const char* key) {
  const MemberValue& value = at(key);
  if (value.is_null()) {
    return std::nullopt;
  }
  const double time = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  return time >= -k_longest_ns && time <= k_longest_ns
             ? std::optional(time * 1e-9)
             : noted(key, "no time in nanoseconds", std::optional<double>());
}

double JsonMembers::time_s(const char* key) {
  const MemberValue& value = at(key);
  const double time = value.is_number() ? value.get<double>() : 0;
  return time > 0 && time <= k_longest_ns * 1e-9 ? time : noted(key, "no time above 0", 1.0);
}

void JsonMembers::note(const std::string& what) {
  if (wrong_.empty()) {
    wrong_ = what;
  }
}

const nlohmann::json& JsonMembers::at(const char* key) const {
  static const MemberValue none;
  const auto found = object_.find(key);
  return found == object_.end() ? none : *found;
}

void JsonMembers::note_at(const char* key, const std::string& what) {
  note(fmt::format("{}{}{} is {}", where_, where_.empty() ? "" : ": ", key, what));
}

}  // namespace commlens
