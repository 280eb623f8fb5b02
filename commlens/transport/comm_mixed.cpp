#include "commlens/transport/comm_mixed.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/transport/started_calls.hpp"

namespace commlens {
namespace {

Bytes message_of(const CommCall& call) {
  const bool is_output = call.kind == CommKind::all_gather || call.kind == CommKind::recv;
  return (is_output ? call.output : call.input) * call.dtype;
}

/// Whether ranks of one call may see different sizes, and so would choose different transports.
bool has_uneven_sizes(const CommCall& call) {
  return call.kind == CommKind::other || !call.input_parts.empty() || !call.output_parts.empty();
}

/// What the communicators of one rank share.
struct MixedState {
  TransportTable table;
  std::function<void(const std::string&)> warn;             // null on all ranks but the first
  std::set<std::pair<std::size_t, std::int64_t>> has_none;  // entries and group sizes that were warned of
};

class MixedCommunicator final : public Communicator {
 public:
  MixedCommunicator(std::vector<NamedTransport> transports, std::shared_ptr<MixedState> state)
      : transports_(std::move(transports)), state_(std::move(state)) {}

  /// Finds the communicator of each entry that fits groups of this size. Collective.
  Result<void> connect() {
    for (std::size_t place = 0; place < table().entries.size(); ++place) {
      const Result<Communicator*> found = communicator_of(table().entries[place]);
      if (!found) {
        return failure(fmt::format("{}: {}", table().where(place), found.error().message));
      }
      routes_.push_back(*found);
    }
    return {};
  }

  /// The same in a job that has begun: an entry whose algorithm is not there for this size takes the
  /// transport's own choice.
  void connect_part() {
    for (std::size_t place = 0; place < table().entries.size(); ++place) {
      const TransportEntry& entry = table().entries[place];
      const Result<Communicator*> found = communicator_of(entry);
      routes_.push_back(found ? *found : base_of(entry));
      if (!found && state_->warn && state_->has_none.emplace(place, size()).second) {
        state_->warn(
            fmt::format("{}: groups of {} ranks have no algorithm {} of {}; they take the choice of {}",
                        table().where(place), size(), entry.algorithm, name_of(entry.kind), entry.transport));
      }
    }
  }

  const std::vector<Rank>& members() const override { return first().members(); }
  GroupRank rank() const override { return first().rank(); }
  /// A call may take any of them.
  bool makes_progress() const override {
    return std::all_of(transports_.begin(), transports_.end(),
                       [](const NamedTransport& one) { return one.communicator->makes_progress(); }) &&
           std::all_of(routes_.begin(), routes_.end(),
                       [](const Communicator* route) { return route->makes_progress(); });
  }
  bool starting_pays() const override {
    return first().starting_pays() ||
           std::any_of(routes_.begin(), routes_.end(),
                       [](const Communicator* route) { return route->starting_pays(); });
  }

  std::unique_ptr<Work> start(const CommCall& call) override { return route(call).start(call); }
  void run(const CommCall& call) override { route(call).run(call); }

  std::unique_ptr<Work> start_group(std::span<const CommCall> calls) override {
    std::vector<std::pair<Communicator*, std::vector<CommCall>>> groups;
    for (const CommCall& call : calls) {
      Communicator* const own = &route(call);
      const auto found =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == own; });
      (found == groups.end() ? groups.emplace_back(own, std::vector<CommCall>()) : *found)
          .second.push_back(call);
    }
    std::vector<std::unique_ptr<Work>> parts;
    parts.reserve(groups.size());
    for (const auto& [communicator, own] : groups) {
      parts.push_back(communicator->start_group(own));
    }
    return started_calls(std::move(parts));
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    std::vector<NamedTransport> parts;
    for (const NamedTransport& transport : transports_) {
      parts.push_back({transport.name, transport.communicator->split(color, key)});
    }
    if (parts.front().communicator == nullptr) {
      return nullptr;
    }
    auto part = std::make_unique<MixedCommunicator>(std::move(parts), state_);
    part->connect_part();
    return part;
  }

  void abort(std::string_view reason) override {
    for (const NamedTransport& transport : transports_) {
      transport.communicator->abort(reason);
    }
  }

 private:
  Communicator& first() const { return *transports_.front().communicator; }
  const TransportTable& table() const { return state_->table; }

  Communicator& route(const CommCall& call) const {
    if (has_uneven_sizes(call)) {
      return first();
    }
    const std::size_t place = table().place_of(call.kind, message_of(call), size());
    return place < routes_.size() ? *routes_[place] : first();
  }

  /// That of the whole transport; null where the job has none of that name.
  Communicator* base_of(const TransportEntry& entry) const {
    const auto base = std::find_if(transports_.begin(), transports_.end(),
                                   [&](const NamedTransport& one) { return one.name == entry.transport; });
    return base == transports_.end() ? nullptr : base->communicator.get();
  }

  Result<Communicator*> communicator_of(const TransportEntry& entry) {
    Communicator* const own = base_of(entry);
    if (own == nullptr) {
      std::vector<std::string> names;
      for (const NamedTransport& transport : transports_) {
        names.push_back(transport.name);
      }
      return failure(
          fmt::format("this job has no transport {}; it has {}", entry.transport, fmt::join(names, ", ")));
    }
    const bool fits = size() > 1 && (entry.ranks == 0 || entry.ranks == size());
    if (entry.algorithm.empty() || !fits) {
      return own;
    }
    const auto key = std::tuple(entry.transport, entry.kind, entry.algorithm);
    if (const auto made = made_.find(key); made != made_.end()) {
      return made->second.get();
    }
    return own->with_algorithm(entry.kind, entry.algorithm).map([&](std::unique_ptr<Communicator> made) {
      return made_.emplace(key, std::move(made)).first->second.get();
    });
  }

  std::vector<NamedTransport> transports_;
  std::shared_ptr<MixedState> state_;
  // Before the transports they come from, they are destroyed.
  std::map<std::tuple<std::string, CommKind, std::string>, std::unique_ptr<Communicator>> made_;
  std::vector<Communicator*> routes_;  // by place in the table
};

}  // namespace

Result<std::unique_ptr<Communicator>> mixed(std::vector<NamedTransport> transports, TransportTable table,
                                            std::function<void(const std::string&)> warn) {
  COMMLENS_CHECK(!transports.empty(), "a job has a transport");
  for (const NamedTransport& transport : transports) {
    COMMLENS_CHECK(transport.communicator->members() == transports.front().communicator->members(),
                   "transports of one job have the same ranks in the same order");
  }
  const bool is_first = transports.front().communicator->rank() == GroupRank{0};
  auto state = std::make_shared<MixedState>(MixedState{std::move(table), {}, {}});
  state->warn = is_first ? std::move(warn) : nullptr;
  auto communicator = std::make_unique<MixedCommunicator>(std::move(transports), std::move(state));
  return communicator->connect().map(
      [&]() -> std::unique_ptr<Communicator> { return std::move(communicator); });
}

Result<std::unique_ptr<Communicator>> mixed(std::unique_ptr<Communicator> world, const std::string& name,
                                            TransportTable table,
                                            std::function<void(const std::string&)> warn) {
  std::vector<NamedTransport> transports;
  transports.push_back({name, std::move(world)});
  return mixed(std::move(transports), std::move(table), std::move(warn));
}

}  // namespace commlens
