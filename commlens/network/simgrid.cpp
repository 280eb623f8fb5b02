#include "commlens/network/simgrid.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/network/simgrid_child.hpp"

namespace commlens {
namespace {

// What the child sends: a letter, then numbers.
constexpr char k_times = 't';

/// One line about what SimGrid cannot play; std::nullopt where it can.
std::optional<std::string> refusal(const SimgridJob& job) {
  std::int64_t hosts = 0;
  std::map<std::pair<std::int32_t, std::int32_t>, const std::vector<LinkId>*> ways;
  for (const std::vector<SimgridFlow>& wave : job.waves) {
    for (const SimgridFlow& flow : wave) {
      const std::int64_t last = std::max(flow.from, flow.to);
      hosts = std::max(hosts, last + 1);
      if (flow.links.empty() || flow.from < 0 || flow.to < 0 || flow.from == flow.to || flow.messages < 1) {
        return "SimGrid plays messages between two hosts over links";
      }
      const bool known = std::ranges::all_of(flow.links, [&](LinkId link) {
        return link >= 0 && static_cast<std::size_t>(link) < job.links.size();
      });
      const auto [entry, is_new] = ways.try_emplace({flow.from, flow.to}, &flow.links);
      if (!known || *entry->second != flow.links) {
        return fmt::format(
            "hosts {} and {} have no way, or several, over the links that are given to SimGrid", flow.from,
            flow.to);
      }
    }
  }
  if (hosts == 0) {
    return "no messages are given to SimGrid";
  }
  if (hosts > k_simgrid_hosts) {
    return fmt::format("SimGrid is asked for {} hosts; it plays up to {}: use commlens' own flows", hosts,
                       k_simgrid_hosts);
  }
  return std::nullopt;
}

std::size_t flows_of(const SimgridJob& job) {
  std::size_t flows = 0;
  for (const std::vector<SimgridFlow>& wave : job.waves) {
    flows += wave.size();
  }
  return flows;
}

Result<std::vector<double>> times_of(std::string_view received, std::size_t flows, int status) {
  if (received.starts_with(k_simgrid_reason)) {
    return failure(std::string(received.substr(1)));
  }
  if (!received.starts_with(k_times) || received.size() != 1 + flows * sizeof(double)) {
    return failure(simgrid_end_text(status));
  }
  std::vector<double> ends(flows);
  std::memcpy(ends.data(), received.data() + 1, flows * sizeof(double));
  return ends;
}

}  // namespace

Result<std::vector<double>> simgrid_finish_times(const SimgridJob& job) {
  if (const std::optional<std::string> reason = refusal(job)) {
    return failure(*reason);
  }
  return simgrid_module().and_then([&](const std::filesystem::path& module) {
    const auto play = [&](void* entry, int socket) {
      std::vector<double> ends;
      reinterpret_cast<SimgridFunction>(entry)(job, ends);
      send_bytes(socket, std::string_view(&k_times, 1));
      send_bytes(socket, {reinterpret_cast<const char*>(ends.data()), ends.size() * sizeof(double)});
    };
    const SimgridChild child = start_simgrid_child(module, "commlens_simgrid_finish_times", play);
    const std::string received = receive_all_bytes(child.commands);
    return times_of(received, flows_of(job), end_simgrid_child(child, false));
  });
}

}  // namespace commlens
