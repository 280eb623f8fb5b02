#include "commlens/formats/io/torch_groups.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/io/json_members.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {
namespace {

/// More is no list of ranks but a broken file: a million jobs of a million ranks.
constexpr std::int64_t k_longest_list = std::int64_t{1} << 20;
constexpr int k_deepest_nesting = 64;

/// std::nullopt if that cannot be.
std::optional<std::vector<Rank>> strided_ranks(std::int64_t start, std::int64_t stride, std::int64_t size) {
  const bool is_one = size == 1 && start >= 0;
  if (start >= k_max_ranks) {
    return std::nullopt;
  }
  if (!is_one && (start < 0 || stride < 1 || size < 1 || size > k_longest_list || stride > k_max_ranks ||
                  start + (size - 1) * stride >= k_max_ranks)) {
    return std::nullopt;
  }
  std::vector<Rank> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (std::int64_t position = 0; position < size; ++position) {
    ranks.push_back(Rank{start + position * stride});
  }
  return ranks;
}

TorchGroup group_at(const nlohmann::json& object) {
  TorchGroup group;
  group.size = json_whole(object, "group_size").value_or(0);
  if (group.size < 0 || group.size > k_max_ranks) {
    group.size = 0;
  }
  const auto ranks = object.find("ranks");
  if (ranks == object.end() || !ranks->is_array()) {
    return group;
  }
  for (const nlohmann::json& rank : *ranks) {
    if (!rank.is_number_integer() || rank.get<std::int64_t>() < 0 ||
        rank.get<std::int64_t>() >= k_max_ranks) {
      group.ranks.clear();
      return group;
    }
    group.ranks.push_back(Rank{rank.get<std::int64_t>()});
  }
  group.size = group.ranks.empty() ? group.size : static_cast<std::int64_t>(group.ranks.size());
  return group;
}

}  // namespace

std::optional<std::int64_t> TorchGroup::global(std::int64_t group_rank) const {
  if (group_rank < 0 || group_rank >= static_cast<std::int64_t>(ranks.size())) {
    return std::nullopt;
  }
  return ranks[static_cast<std::size_t>(group_rank)].value;
}

bool TorchGroups::read_list(std::string_view json) {
  const nlohmann::json list = shallow_json(json);
  if (!list.is_array()) {
    return false;
  }
  for (const nlohmann::json& object : list) {
    const std::string name = object.is_object() ? json_word(json_at(object, "pg_name")) : std::string();
    if (name.empty()) {
      return false;
    }
    TorchGroup group = group_at(object);
    if (const auto ranks = object.find("ranks");
        ranks != object.end() && ranks->is_array() && ranks->empty()) {
      group = listed({.start = 0, .stride = 1, .size = group.size});
    }
    add(name, group);
    if (const std::string backend = json_word(json_at(object, "backend_id")); !backend.empty()) {
      add(backend, group);
    }
  }
  return true;
}

void TorchGroups::add(const std::string& name, TorchGroup group) {
  TorchGroup& known = groups_[name];
  if (known.ranks.empty() && (!group.ranks.empty() || known.size == 0)) {
    known = std::move(group);
  }
}

void TorchGroups::add(const std::string& name, const StridedGroup& group) {
  if (find(name).ranks.empty()) {
    add(name, listed(group));
  }
}

TorchGroup TorchGroups::listed(const StridedGroup& group) {
  std::optional<std::vector<Rank>> ranks =
      group.size <= listable_ ? strided_ranks(group.start, group.stride, group.size) : std::nullopt;
  listable_ -= ranks ? group.size : 0;
  return {std::move(ranks).value_or(std::vector<Rank>()), group.size};
}

const TorchGroup& TorchGroups::find(std::string_view name) const {
  static const TorchGroup nothing;
  const auto found = groups_.find(name);
  return found == groups_.end() ? nothing : found->second;
}

void set_group(const TorchGroup& group, const std::string& name, CallRecord& record) {
  record.group.is_given = true;
  record.group.ranks = group.ranks;
  if (!std::is_sorted(record.group.ranks.begin(), record.group.ranks.end())) {
    std::sort(record.group.ranks.begin(), record.group.ranks.end());
  }
  if (group.ranks.empty() && group.size > 0) {
    record.group_size = group.size;
    record.group_name = name;
  }
}

nlohmann::json shallow_json(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char mark = text[at];
    if (in_string) {
      at += mark == '\\' ? 1 : 0;
      in_string = mark != '"';
    } else if (mark == '"') {
      in_string = true;
    } else if (mark == '[' || mark == '{') {
      if (++depth > k_deepest_nesting) {
        // NOLINTNEXTLINE(modernize-return-braced-init-list): braces would make it an array
        return nlohmann::json(nlohmann::json::value_t::discarded);
      }
    } else if (mark == ']' || mark == '}') {
      --depth;
    }
  }
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace commlens::formats
