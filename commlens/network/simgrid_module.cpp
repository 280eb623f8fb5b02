// libcommlens-simgrid.so: the part of commlens that needs SimGrid, loaded by simgrid_finish_times in a
// process of its own.
#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <simgrid/s4u.hpp>
#include <sys/socket.h>

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
      limits_[{way.from, way.to}] = links_.size();
      links_.push_back(
          zone_->create_link("limit" + std::to_string(links_.size()), 1)->set_latency(0)->seal());
      SimgridFlow flow{.from = way.from, .to = way.to, .links = way.links};
      flow.links.push_back(static_cast<LinkId>(links_.size() - 1));
      add_route(flow);
    }
    zone_->seal();
  }

  /// The link of a session that holds a pair of hosts to what its streams want.
  s4u::Link* limit(std::int32_t from, std::int32_t to) const { return links_[limits_.at({from, to})]; }

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
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> limits_;
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
    try {
      answer_commands();
    } catch (const std::exception& error) {  // it must not leave the actor: SimGrid would end the process
      send_bytes(socket_, k_simgrid_reason + std::string("SimGrid refuses: ") + error.what());
    }
    shutdown(socket_, SHUT_RDWR);
  }

 private:
  void answer_commands() {
    SimgridCommand command;
    while (receive_bytes(socket_, reinterpret_cast<char*>(&command), sizeof(command))) {
      if (command.streams >= 0) {
        begin(command);
        continue;
      }
      const SimgridAnswer answer = next_end(command.seconds);
      send_bytes(socket_, std::string_view(&k_simgrid_answer, 1));
      send_bytes(socket_, {reinterpret_cast<const char*>(&answer), sizeof(answer)});
    }
  }

  void begin(const SimgridCommand& command) {
    std::vector<SimgridStream> streams(static_cast<std::size_t>(command.streams));
    receive_bytes(socket_, reinterpret_cast<char*>(streams.data()), streams.size() * sizeof(SimgridStream));
    s4u::this_actor::sleep_until(command.seconds);
    for (const SimgridStream& stream : streams) {
      want(stream, 1);
    }
    for (const SimgridStream& stream : streams) {
      const s4u::CommPtr comm =
          s4u::Comm::sendto_init(platform_.host(stream.from), platform_.host(stream.to));
      comm->set_payload_size(static_cast<std::uint64_t>(stream.bytes))->start();
      moving_.push_back({comm, stream, command.call});
    }
    left_[command.call] = command.streams;
  }

  SimgridAnswer next_end(double limit) {
    while (ended_.empty()) {
      const double now = s4u::Engine::get_clock();
      if (moving_.empty()) {
        if (std::isfinite(limit)) {
          s4u::this_actor::sleep_until(limit);
        }
        return {};
      }
      const bool is_endless = !std::isfinite(limit);
      if (!is_endless && limit <= now) {
        return {};
      }
      std::vector<s4u::CommPtr> comms;
      for (const Moving& moving : moving_) {
        comms.push_back(moving.comm);
      }
      const ssize_t first = s4u::Comm::wait_any_for(comms, is_endless ? -1 : limit - now);
      if (first < 0) {
        return {};
      }
      sweep(static_cast<std::size_t>(first));
    }
    const SimgridAnswer answer = ended_.front();
    ended_.pop_front();
    return answer;
  }

  struct Moving {
    s4u::CommPtr comm;
    SimgridStream stream;
    std::int64_t call = 0;
  };
  struct Wanted {
    std::int64_t streams = 0;
    double bytes_per_second = 0;
  };

  /// SimGrid's own limit (Comm::set_rate) does not hold for messages from host to host: a link does.
  void want(const SimgridStream& stream, int change) {
    Wanted& wanted = wanted_[{stream.from, stream.to}];
    wanted.streams += change;
    wanted.bytes_per_second += change * stream.bytes_per_second;
    if (wanted.streams == 0) {
      wanted.bytes_per_second = 0;  // without rounding errors
      return;
    }
    platform_.limit(stream.from, stream.to)->set_bandwidth(wanted.bytes_per_second);
  }

  /// Takes out all that have ended now.
  void sweep(std::size_t first) {
    std::vector<Moving> kept;
    for (std::size_t at = 0; at < moving_.size(); ++at) {
      const Moving& moving = moving_[at];
      if (at != first && !moving.comm->test()) {
        kept.push_back(moving);
        continue;
      }
      want(moving.stream, -1);
      if (--left_[moving.call] == 0) {
        left_.erase(moving.call);
        ended_.push_back({moving.call, s4u::Engine::get_clock()});
      }
    }
    moving_ = std::move(kept);
  }

  const SimgridPlatform& platform_;
  int socket_;
  std::vector<Moving> moving_;
  std::map<std::pair<std::int32_t, std::int32_t>, Wanted> wanted_;
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
