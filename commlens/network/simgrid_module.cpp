// libcommlens-simgrid.so: the part of commlens that needs SimGrid, loaded by simgrid_finish_times in a
// process of its own.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <simgrid/s4u.hpp>

#include "commlens/network/simgrid.hpp"
#include "commlens/network/simgrid_session.hpp"

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

  explicit SimgridPlatform(const SimgridNetwork& network) : zone_(s4u::create_full_zone("root")) {
    for (std::size_t at = 0; at < network.capacities.size(); ++at) {
      links_.push_back(
          zone_->create_link("link" + std::to_string(at), network.capacities[at])->set_latency(0)->seal());
    }
    add_hosts(network.hosts);
    for (const SimgridWay& way : network.ways) {
      add_route({.from = way.from, .to = way.to, .links = way.links});
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

/// The engine, with the options of docs/contention.md.
s4u::Engine new_engine() {
  std::vector<std::string> words = {"commlens", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                    "--cfg=network/TCP-gamma:0", "--log=root.thres:critical"};
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  auto count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  return s4u::Engine(&count, pointers.data());
}

/// Answers the commands of a SimgridSession, as an actor: while it reads, the simulated time stands still.
class SimgridServer {
 public:
  SimgridServer(const SimgridPlatform& platform, int socket) : platform_(platform), socket_(socket) {}

  void serve() {
    SimgridCommand command;
    while (receive_bytes(socket_, reinterpret_cast<char*>(&command), sizeof(command))) {
      if (command.streams >= 0) {
        begin(command);
        continue;
      }
      const SimgridAnswer answer = next_end(command.seconds);
      send_bytes(socket_, {reinterpret_cast<const char*>(&answer), sizeof(answer)});
    }
  }

 private:
  void begin(const SimgridCommand& command) {
    std::vector<SimgridStream> streams(static_cast<std::size_t>(command.streams));
    receive_bytes(socket_, reinterpret_cast<char*>(streams.data()), streams.size() * sizeof(SimgridStream));
    s4u::this_actor::sleep_until(command.seconds);
    for (const SimgridStream& stream : streams) {
      const s4u::CommPtr comm =
          s4u::Comm::sendto_init(platform_.host(stream.from), platform_.host(stream.to));
      comm->set_payload_size(static_cast<std::uint64_t>(stream.bytes));
      comm->set_rate(stream.bytes_per_second);
      comm->start();
      comms_.push_back(comm);
      call_of_.push_back(command.call);
    }
    left_[command.call] = command.streams;
  }

  SimgridAnswer next_end(double limit) {
    while (ended_.empty()) {
      const double now = s4u::Engine::get_clock();
      if (comms_.empty()) {
        if (std::isfinite(limit)) {
          s4u::this_actor::sleep_until(limit);
        }
        return {};
      }
      const bool is_endless = !std::isfinite(limit);
      if (!is_endless && limit <= now) {
        return {};
      }
      const ssize_t first = s4u::Comm::wait_any_for(comms_, is_endless ? -1 : limit - now);
      if (first < 0) {
        return {};
      }
      sweep(static_cast<std::size_t>(first));
    }
    const SimgridAnswer answer = ended_.front();
    ended_.pop_front();
    return answer;
  }

  /// Takes out all that have ended now.
  void sweep(std::size_t first) {
    std::size_t kept = 0;
    for (std::size_t at = 0; at < comms_.size(); ++at) {
      if (at != first && !comms_[at]->test()) {
        comms_[kept] = comms_[at];
        call_of_[kept++] = call_of_[at];
      } else if (--left_[call_of_[at]] == 0) {
        left_.erase(call_of_[at]);
        ended_.push_back({call_of_[at], s4u::Engine::get_clock()});
      }
    }
    comms_.resize(kept);
    call_of_.resize(kept);
  }

  const SimgridPlatform& platform_;
  int socket_;
  std::vector<s4u::CommPtr> comms_;
  std::vector<std::int64_t> call_of_;
  std::map<std::int64_t, std::int64_t> left_;  // streams of each call
  std::deque<SimgridAnswer> ended_;
};

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_simgrid_serve(
    const commlens::SimgridNetwork& network, int socket) {
  using namespace commlens;
  const s4u::Engine engine = new_engine();
  const SimgridPlatform platform(network);
  send_bytes(socket, std::string_view(&k_simgrid_ready, 1));
  s4u::Actor::create("calls", platform.host(0), [&] { SimgridServer(platform, socket).serve(); });
  engine.run();
}

extern "C" __attribute__((visibility("default"))) void commlens_simgrid_finish_times(
    const commlens::SimgridJob& job, std::vector<double>& ends) {
  using namespace commlens;
  const s4u::Engine engine = new_engine();
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
