// libcommlens-simgrid.so: the part of commlens that needs SimGrid, loaded by simgrid_finish_times in a
// process of its own.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <simgrid/s4u.hpp>

#include "commlens/network/simgrid.hpp"

namespace commlens {
namespace {

namespace s4u = simgrid::s4u;

/// A flow and the place of its end.
struct PlacedFlow {
  const SimgridFlow* flow = nullptr;
  std::size_t at = 0;
};

/// The platform: a full zone with the routes that the flows take.
class SimgridPlatform {
 public:
  explicit SimgridPlatform(const SimgridJob& job) : zone_(s4u::create_full_zone("root")) {
    for (std::size_t at = 0; at < job.links.size(); ++at) {
      links_.push_back(zone_->create_link("link" + std::to_string(at), job.links[at].bytes_per_second)
                           ->set_latency(job.links[at].latency_seconds)
                           ->seal());
    }
    for (const std::vector<SimgridFlow>& wave : job.waves) {
      for (const SimgridFlow& flow : wave) {
        add_hosts(std::max(flow.from, flow.to) + 1);
      }
    }
    for (const std::vector<SimgridFlow>& wave : job.waves) {
      for (const SimgridFlow& flow : wave) {
        add_route(flow);
      }
    }
    zone_->seal();
  }

  s4u::Host* host(std::int32_t at) const { return hosts_[static_cast<std::size_t>(at)]; }

 private:
  void add_hosts(std::int32_t count) {
    while (hosts_.size() < static_cast<std::size_t>(count)) {
      hosts_.push_back(zone_->create_host("host" + std::to_string(hosts_.size()), 1e9)->seal());
    }
  }

  void add_route(const SimgridFlow& flow) {
    if (!known_.try_emplace({flow.from, flow.to}, true).second) {
      return;
    }
    std::vector<s4u::LinkInRoute> way;
    for (const LinkId link : flow.links) {
      way.emplace_back(links_[static_cast<std::size_t>(link)]);
    }
    zone_->add_route(host(flow.from)->get_netpoint(), host(flow.to)->get_netpoint(), nullptr, nullptr, way,
                     false);
  }

  s4u::NetZone* zone_;
  std::vector<s4u::Link*> links_;
  std::vector<s4u::Host*> hosts_;
  std::map<std::pair<std::int32_t, std::int32_t>, bool> known_;
};

/// Plays one wave: starts each flow at its time and waits for all.
void play(const SimgridPlatform& platform, std::vector<PlacedFlow> flows, std::vector<double>& ends) {
  std::ranges::stable_sort(flows, {}, [](const PlacedFlow& placed) { return placed.flow->start_seconds; });
  const double began = s4u::Engine::get_clock();
  std::vector<s4u::CommPtr> messages;
  std::vector<std::size_t> places;
  for (const PlacedFlow& placed : flows) {
    s4u::this_actor::sleep_until(began + placed.flow->start_seconds);
    for (std::int64_t message = 0; message < placed.flow->messages; ++message) {
      const s4u::CommPtr comm =
          s4u::Comm::sendto_init(platform.host(placed.flow->from), platform.host(placed.flow->to));
      comm->set_payload_size(static_cast<std::uint64_t>(placed.flow->bytes))->start();
      messages.push_back(comm);
      places.push_back(placed.at);
    }
  }
  for (const s4u::CommPtr& message : messages) {
    message->wait();
  }
  for (std::size_t at = 0; at < messages.size(); ++at) {
    ends[places[at]] = std::max(ends[places[at]], messages[at]->get_finish_time());
  }
}

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_simgrid_finish_times(
    const commlens::SimgridJob& job, std::vector<double>& ends) {
  using namespace commlens;
  std::vector<std::string> words = {"commlens", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                    "--cfg=network/TCP-gamma:0", "--log=root.thres:critical"};
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  auto count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  const s4u::Engine engine(&count, pointers.data());
  const SimgridPlatform platform(job);
  std::vector<std::vector<PlacedFlow>> waves;
  std::size_t flows = 0;
  for (const std::vector<SimgridFlow>& wave : job.waves) {
    waves.emplace_back();
    for (const SimgridFlow& flow : wave) {
      waves.back().push_back({&flow, flows++});
    }
  }
  ends.assign(flows, 0);
  s4u::Actor::create("flows", platform.host(0), [&] {
    for (const std::vector<PlacedFlow>& wave : waves) {
      play(platform, wave, ends);
    }
  });
  engine.run();
}
