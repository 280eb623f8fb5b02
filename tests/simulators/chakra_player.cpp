#include "tests/simulators/chakra_player.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/chakra/messages.hpp"
#include "commlens/formats/chakra/names.hpp"

namespace commlens::test {
namespace {

namespace chakra = formats::chakra;

struct PlayedNode {
  chakra::Node content;
  std::size_t waits = 0;
  std::vector<std::uint64_t> then;  // nodes that wait for this one
  bool is_finished = false;
};

struct RankGraph {
  std::map<std::uint64_t, PlayedNode> nodes;
  std::set<std::uint64_t> ready;
  std::map<std::string, std::vector<std::int64_t>> groups;
  std::map<std::string, std::int64_t> collectives;  // issued, by group
  bool computes = false;
  bool communicates = false;
};

struct ChakraEvent {
  enum class Kind : std::uint8_t { finishes, arrives };
  std::int64_t time = 0;
  std::int64_t order = 0;
  Kind kind = Kind::finishes;
  std::size_t rank = 0;
  std::uint64_t node = 0;
  friend bool operator>(const ChakraEvent& a, const ChakraEvent& b) {
    return std::tie(a.time, a.order) > std::tie(b.time, b.order);
  }
};

/// ['[{"pg_name": "1", "ranks": [0, 1], …}]'] without its frame.
void read_groups(const std::string& list, RankGraph& graph) {
  if (list.size() < 4) {
    return;
  }
  for (const auto& group : nlohmann::json::parse(list.substr(2, list.size() - 4))) {
    graph.groups[group.at("pg_name")] = group.at("ranks").get<std::vector<std::int64_t>>();
  }
}

std::string read_graph(const std::filesystem::path& path, RankGraph& graph) {
  Result<formats::TextSource> source = formats::TextSource::open(path);
  if (!source) {
    return source.error().message;
  }
  chakra::Reader reader(std::move(*source));
  if (const auto metadata = reader.metadata(); !metadata) {
    return metadata.error().message;
  }
  chakra::Node node;
  Result<bool> got = reader.next(node);
  for (; got && *got; got = reader.next(node)) {
    if (!graph.nodes.try_emplace(node.id(), PlayedNode{node, 0, {}, false}).second) {
      return fmt::format("{}: node {} stands twice", path.string(), node.id());
    }
    node = {};
  }
  for (auto& [id, waiting] : graph.nodes) {
    std::set<std::uint64_t> before(waiting.content.data_dependencies().begin(),
                                   waiting.content.data_dependencies().end());
    before.insert(waiting.content.control_dependencies().begin(),
                  waiting.content.control_dependencies().end());
    for (const std::uint64_t first : before) {
      const auto found = graph.nodes.find(first);
      if (found == graph.nodes.end() || first == id) {
        return fmt::format("{}: node {} depends on node {}", path.string(), id, first);
      }
      found->second.then.push_back(id);
    }
    waiting.waits = before.size();
    if (waiting.waits == 0) {
      graph.ready.insert(id);
    }
  }
  return got ? "" : got.error().message;
}

class ChakraPlayer {
 public:
  explicit ChakraPlayer(std::vector<RankGraph>& graphs) : graphs_(graphs) {}

  void play(PlayedChakra& played) {
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) {
      issue_ready(rank);
    }
    while (!events_.empty() && error_.empty()) {
      const ChakraEvent event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == ChakraEvent::Kind::finishes) {
        finish(event.rank, event.node);
      } else {
        arrive(event.rank, event.node);
      }
    }
    played.error = error_;
    played.end = now_;
    for (const RankGraph& graph : graphs_) {
      played.nodes += static_cast<std::int64_t>(graph.nodes.size());
      played.unfinished += std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                         [](const auto& node) { return !node.second.is_finished; });
    }
    for (const auto& [key, queue] : messages_) {
      played.left_messages += queue.arrived;
      played.left_receives += static_cast<std::int64_t>(queue.receives.size());
    }
  }

 private:
  struct Queue {
    std::int64_t arrived = 0;
    std::deque<std::uint64_t> receives;
  };
  struct Collective {
    std::vector<std::pair<std::size_t, std::uint64_t>> members;  // rank, node
    std::int64_t type = 0;
    std::int64_t bytes = 0;
  };

  static bool is_exclusive(chakra::NodeType type) {
    return type == chakra::COMM_SEND_NODE || type == chakra::COMM_COLL_NODE;
  }

  void add(std::int64_t ticks, ChakraEvent::Kind kind, std::size_t rank, std::uint64_t node) {
    events_.push({now_ + ticks, order_++, kind, rank, node});
  }

  void fail(std::size_t rank, const PlayedNode& node, std::string_view why) {
    if (error_.empty()) {
      error_ = fmt::format("rank {}, node {} ({}): {}", rank, node.content.id(), node.content.name(), why);
    }
  }

  void issue_ready(std::size_t rank) {
    RankGraph& graph = graphs_[rank];
    const std::set<std::uint64_t> ready = graph.ready;
    for (const std::uint64_t id : ready) {
      const chakra::NodeType type = graph.nodes[id].content.type();
      if ((type == chakra::COMP_NODE && graph.computes) || (is_exclusive(type) && graph.communicates)) {
        continue;
      }
      graph.ready.erase(id);
      issue(rank, id);
    }
  }

  void issue(std::size_t rank, std::uint64_t id) {
    RankGraph& graph = graphs_[rank];
    const PlayedNode& node = graph.nodes[id];
    graph.communicates = graph.communicates || is_exclusive(node.content.type());
    switch (node.content.type()) {
      case chakra::METADATA_NODE:
        read_groups(node.content.inputs().values(), graph);
        add(0, ChakraEvent::Kind::finishes, rank, id);
        break;
      case chakra::COMP_NODE:
        graph.computes = true;
        add(1 + static_cast<std::int64_t>(node.content.duration_us()), ChakraEvent::Kind::finishes, rank, id);
        break;
      case chakra::COMM_SEND_NODE:
      case chakra::COMM_RECV_NODE:
        issue_message(rank, id, node);
        break;
      case chakra::COMM_COLL_NODE:
        issue_collective(rank, id, node);
        break;
      default:
        fail(rank, node, "unknown node type");
    }
  }

  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  /// Source, destination, tag and size.
  static Key key_of(const PlayedNode& node) {
    const auto& attributes = node.content.attributes();
    return {chakra::integer(attributes, chakra::k_chakra_source).value_or(-1),
            chakra::integer(attributes, chakra::k_chakra_destination).value_or(-1),
            chakra::integer(attributes, chakra::k_chakra_tag).value_or(-1),
            chakra::integer(attributes, chakra::k_chakra_comm_size).value_or(-1)};
  }

  void issue_message(std::size_t rank, std::uint64_t id, const PlayedNode& node) {
    const Key key = key_of(node);
    const auto [source, destination, tag, bytes] = key;
    const bool sends = node.content.type() == chakra::COMM_SEND_NODE;
    const auto self = static_cast<std::int64_t>(rank);
    if ((sends ? source : destination) != self || (sends ? destination : source) == self || tag < 0 ||
        bytes < 1) {
      fail(rank, node, "no message between this rank and another one");
    } else if (sends) {
      const std::int64_t ticks = 1 + bytes / 1000;
      add(ticks, ChakraEvent::Kind::arrives, rank, id);
      add(ticks, ChakraEvent::Kind::finishes, rank, id);
    } else {
      messages_[key].receives.push_back(id);
      match(key);
    }
  }

  void arrive(std::size_t rank, std::uint64_t id) {
    const Key key = key_of(graphs_[rank].nodes[id]);
    ++messages_[key].arrived;
    match(key);
  }

  void match(const Key& key) {
    Queue& queue = messages_[key];
    while (queue.arrived > 0 && !queue.receives.empty()) {
      --queue.arrived;
      add(0, ChakraEvent::Kind::finishes, static_cast<std::size_t>(std::get<1>(key)), queue.receives.front());
      queue.receives.pop_front();
    }
  }

  void issue_collective(std::size_t rank, std::uint64_t id, const PlayedNode& node) {
    constexpr std::int64_t all_reduce = 0;
    constexpr std::int64_t broadcast = 5;
    static const std::set<std::int64_t> k_known = {all_reduce, 2, broadcast, 6, 7};
    const auto& attributes = node.content.attributes();
    const std::int64_t type = chakra::integer(attributes, chakra::k_chakra_comm_type).value_or(-1);
    const std::int64_t bytes = chakra::integer(attributes, chakra::k_chakra_comm_size).value_or(-1);
    const std::string group(chakra::text(attributes, chakra::k_chakra_group));
    if (!k_known.contains(type) || bytes < 1) {
      fail(rank, node, "unsupported collective comm type, or of no bytes");
      return;
    }
    if (type == broadcast) {
      add(1 + static_cast<std::int64_t>(node.content.duration_us()), ChakraEvent::Kind::finishes, rank, id);
      return;
    }
    std::vector<std::int64_t> members =
        group == "0" ? std::vector<std::int64_t>{} : graphs_[rank].groups[group];
    if (members.empty() && group != "0" && !graphs_[rank].groups.contains(group)) {
      fail(rank, node, "unknown group");
      return;
    }
    const std::size_t size = members.empty() ? graphs_.size() : members.size();
    const std::int64_t nth = graphs_[rank].collectives[group]++;
    Collective& collective = collectives_[{group, nth}];
    if (collective.members.empty()) {
      collective.type = type;
      collective.bytes = bytes;
    }
    if (size < 2 || collective.type != type || collective.bytes != bytes) {
      fail(rank, node, "differs from what another member calls");
      return;
    }
    collective.members.emplace_back(rank, id);
    if (collective.members.size() == size) {
      for (const auto& [member, member_node] : collective.members) {
        add(1 + bytes / 1000, ChakraEvent::Kind::finishes, member, member_node);
      }
    }
  }

  void finish(std::size_t rank, std::uint64_t id) {
    RankGraph& graph = graphs_[rank];
    PlayedNode& node = graph.nodes[id];
    node.is_finished = true;
    graph.computes = graph.computes && node.content.type() != chakra::COMP_NODE;
    graph.communicates = graph.communicates && !is_exclusive(node.content.type());
    for (const std::uint64_t next : node.then) {
      if (--graph.nodes[next].waits == 0) {
        graph.ready.insert(next);
      }
    }
    issue_ready(rank);
  }

  std::vector<RankGraph>& graphs_;
  std::priority_queue<ChakraEvent, std::vector<ChakraEvent>, std::greater<>> events_;
  std::map<Key, Queue> messages_;
  std::map<std::pair<std::string, std::int64_t>, Collective> collectives_;
  std::string error_;
  std::int64_t now_ = 0;
  std::int64_t order_ = 0;
};

}  // namespace

std::string PlayedChakra::text() const {
  return fmt::format("{} {} nodes: {} unfinished, {} receives and {} messages left over", error, nodes,
                     unfinished, left_receives, left_messages);
}

PlayedChakra play_chakra(const std::filesystem::path& directory) {
  PlayedChakra played;
  std::vector<RankGraph> graphs;
  for (std::size_t rank = 0;; ++rank) {
    const std::filesystem::path file = directory / fmt::format("chakra.{}.et", rank);
    if (!std::filesystem::exists(file)) {
      break;
    }
    played.error = read_graph(file, graphs.emplace_back());
    if (!played.error.empty()) {
      return played;
    }
  }
  if (graphs.empty()) {
    played.error = "no chakra.0.et";
    return played;
  }
  ChakraPlayer(graphs).play(played);
  return played;
}

}  // namespace commlens::test
