#include "commlens/machine/cost/tuning_log.hpp"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

struct PrintedName {
  std::string_view printed;
  std::string_view ours;
};

constexpr std::array<PrintedName, 5> k_operations = {{{"Broadcast", "broadcast"},
                                                      {"Reduce", "reduce"},
                                                      {"AllGather", "all_gather"},
                                                      {"ReduceScatter", "reduce_scatter"},
                                                      {"AllReduce", "all_reduce"}}};
constexpr std::array<PrintedName, 7> k_tuned_algorithms = {{{"Tree", "tree"},
                                                            {"Ring", "ring"},
                                                            {"CollNetDirect", "collnet_direct"},
                                                            {"CollNetChain", "collnet_chain"},
                                                            {"NVLS", "nvls"},
                                                            {"NVLSTree", "nvls_tree"},
                                                            {"PAT", "pat"}}};

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <std::size_t Count>
std::string_view ours(const std::array<PrintedName, Count>& names, std::string_view printed) {
  for (const PrintedName& name : names) {
    if (name.printed == printed) {
      return name.ours;
    }
  }
  return {};
}

std::vector<std::string_view> parts_of(std::string_view line) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t bar = line.find('|');
    parts.push_back(stripped(line.substr(0, bar)));
    if (bar == std::string_view::npos) {
      return parts;
    }
    line = line.substr(bar + 1);
  }
}

/// The last word of what stands before the first bar.
std::string_view row_name(std::string_view text) { return text.substr(text.rfind(' ') + 1); }

/// "15.2/ 4.1".
std::optional<TunedPair> pair_of_cell(std::string_view cell) {
  const std::size_t slash = cell.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const Result<double> latency = parse_number(stripped(cell.substr(0, slash)));
  const Result<double> bandwidth = parse_number(stripped(cell.substr(slash + 1)));
  return latency && bandwidth ? std::optional(TunedPair{CommKind::other, "", "", *latency, *bandwidth})
                              : std::nullopt;
}

}  // namespace

Result<std::vector<TunedPair>> parse_tuning_log(const std::string& file, std::string_view content) {
  constexpr std::array<const char*, 3> protocols = {"LL", "LL128", "Simple"};
  std::vector<TunedPair> result;
  std::vector<std::string_view> algorithms;
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    const std::vector<std::string_view> parts = parts_of(content.substr(0, end));
    content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
    const std::string_view name = row_name(parts.front());
    if (parts.size() > 1 && name == "Algorithm") {
      algorithms.assign(parts.begin() + 1, parts.end());
    }
    const std::string_view operation = ours(k_operations, name);
    for (std::size_t cell = 1; !operation.empty() && cell < parts.size(); ++cell) {
      const std::size_t column = (cell - 1) / protocols.size();
      std::optional<TunedPair> pair = pair_of_cell(parts[cell]);
      const std::optional<CommKind> kind = comm_kind_from(operation);
      if (pair && kind && column < algorithms.size() &&
          !ours(k_tuned_algorithms, algorithms[column]).empty()) {
        pair->op = *kind;
        pair->algorithm = ours(k_tuned_algorithms, algorithms[column]);
        pair->protocol = protocols[(cell - 1) % protocols.size()];
        result.push_back(*pair);
      }
    }
  }
  return result.empty()
             ? Result<std::vector<TunedPair>>(failure(fmt::format(
                   "{}: no table of NCCL_DEBUG_SUBSYS=TUNING (rows like \"AllReduce | 15.2/ 4.1 |\")", file)))
             : Result<std::vector<TunedPair>>(std::move(result));
}

}  // namespace commlens
