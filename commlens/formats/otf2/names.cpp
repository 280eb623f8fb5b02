#include "commlens/formats/otf2/names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace commlens::formats::otf2 {
namespace {

constexpr std::string_view k_prefix = "MPI_";

constexpr std::array<std::string_view, 9> k_functions = {
    "allreduce", "allgather", "reduce_scatter", "alltoall", "bcast", "reduce", "send", "recv", "barrier"};

constexpr std::array<std::string_view, 4> k_with_request = {"Rput", "Rget", "Raccumulate", "Rget_accumulate"};

constexpr bool is_small(char c) { return c >= 'a' && c <= 'z'; }

/// "0-3", "0,2,4,6", "0,2,4,…,126 (64)".
std::string ranks_text(const std::vector<Rank>& members) {
  constexpr std::size_t most_listed = 8;
  constexpr std::size_t first_listed = 3;
  const bool is_run = std::adjacent_find(members.begin(), members.end(), [](Rank a, Rank b) {
                        return b.value != a.value + 1;
                      }) == members.end();
  if (is_run && members.size() > 2) {
    return fmt::format("{}-{}", members.front().value, members.back().value);
  }
  std::string text;
  for (std::size_t at = 0; at < members.size(); ++at) {
    if (members.size() > most_listed && at == first_listed) {
      return fmt::format("{},…,{} ({})", text, members.back().value, members.size());
    }
    text += fmt::format("{}{}", at == 0 ? "" : ",", members[at].value);
  }
  return text;
}

}  // namespace

bool is_mpi_function(std::string_view name) {
  return name.starts_with(k_prefix) && name.size() > k_prefix.size() &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_small(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

bool returns_at_once(std::string_view name) {
  if (!is_mpi_function(name)) {
    return false;
  }
  name.remove_prefix(k_prefix.size());
  const bool is_large = name.ends_with("_c");  // with large counts
  name.remove_suffix(is_large ? 2 : 0);
  const bool is_immediate =
      name.size() > 1 && name[0] == 'I' && is_small(name[1]) && !name.starts_with("Init");
  const bool has_request =
      std::find(k_with_request.begin(), k_with_request.end(), name) != k_with_request.end();
  return is_immediate || name.ends_with("_init") || has_request;
}

std::string otf2_region_name(CommKind kind, std::string_view own_name, bool has_request) {
  if (is_mpi_function(own_name) || (kind == CommKind::other && !own_name.empty())) {
    return std::string(own_name);
  }
  if (kind == CommKind::other) {
    return std::string(name_of(kind));
  }
  std::string function(k_functions.at(static_cast<std::size_t>(kind)));
  if (has_request) {
    return fmt::format("MPI_I{}", function);
  }
  function[0] = static_cast<char>(function[0] - 'a' + 'A');
  return fmt::format("MPI_{}", function);
}

std::string otf2_comm_name(const std::vector<Rank>& members, std::int64_t job_ranks, Axis axis,
                           std::int64_t ordinal) {
  if (members.size() == 1) {
    return "MPI_COMM_SELF";
  }
  const bool is_world = static_cast<std::int64_t>(members.size()) == job_ranks &&
                        members.front().value == 0 && std::is_sorted(members.begin(), members.end());
  const bool has_axis = axis != Axis::unknown && axis != Axis::world && axis != Axis::self;
  std::string name = is_world ? "MPI_COMM_WORLD"
                              : fmt::format("{}ranks {}", has_axis ? fmt::format("{} ", name_of(axis)) : "",
                                            ranks_text(members));
  if (ordinal > 1) {
    name += ordinal == 2 ? " dup" : fmt::format(" dup {}", ordinal - 1);
  }
  return name;
}

}  // namespace commlens::formats::otf2
