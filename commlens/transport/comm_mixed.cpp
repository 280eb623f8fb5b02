#include "commlens/transport/comm_mixed.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

/// Calls that were started on several transports.
class MixedWork final : public Work {
 public:
  explicit MixedWork(std::vector<std::unique_ptr<Work>> parts) : parts_(std::move(parts)) {}

  void wait() override {
    for (const std::unique_ptr<Work>& part : parts_) {
      part->wait();
    }
  }

  /// Asks all of them: each may need it to make progress.
  bool is_complete() override {
    std::ptrdiff_t complete = 0;
    for (const std::unique_ptr<Work>& part : parts_) {
      complete += part->is_complete() ? 1 : 0;
    }
    return complete == std::ssize(parts_);
  }

 private:
  std::vector<std::unique_ptr<Work>> parts_;
};

Bytes message_of(const CommCall& call) {
  const bool is_output = call.kind == CommKind::all_gather || call.kind == CommKind::recv;
  return (is_output ? call.output : call.input) * call.dtype;
}

/// Whether ranks of one call may see different sizes, and so would choose different transports.
bool has_uneven_sizes(const CommCall& call) {
  return call.kind == CommKind::other || !call.input_parts.empty() || !call.output_parts.empty();
}

class MixedCommunicator final : public Communicator {
 public:
  MixedCommunicator(std::vector<NamedTransport> transports, std::shared_ptr<const TransportTable> table)
      : transports_(std::move(transports)), table_(std::move(table)) {}

  /// Finds the communicator of each entry that fits groups of this size. Collective.
  Result<void> connect() {
    for (std::size_t place = 0; place < table_->entries.size(); ++place) {
      const Result<Communicator*> found = communicator_of(table_->entries[place]);
      if (!found) {
        return failure(fmt::format("{}: {}", table_->where(place), found.error().message));
      }
      routes_.push_back(*found);
    }
    return {};
  }

  const std::vector<Rank>& members() const override { return first().members(); }
  GroupRank rank() const override { return first().rank(); }
  bool makes_progress() const override { return first().makes_progress(); }
  bool starting_pays() const override { return first().starting_pays(); }

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
    return std::make_unique<MixedWork>(std::move(parts));
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    std::vector<NamedTransport> parts;
    for (const NamedTransport& transport : transports_) {
      parts.push_back({transport.name, transport.communicator->split(color, key)});
    }
    if (parts.front().communicator == nullptr) {
      return nullptr;
    }
    auto part = std::make_unique<MixedCommunicator>(std::move(parts), table_);
    if (const Result<void> connected = part->connect(); !connected) {
      throw SystemError(fmt::format("the table of transports, {}", connected.error().message));
    }
    return part;
  }

  void abort(std::string_view reason) override {
    for (const NamedTransport& transport : transports_) {
      transport.communicator->abort(reason);
    }
  }

 private:
  Communicator& first() const { return *transports_.front().communicator; }

  Communicator& route(const CommCall& call) const {
    if (has_uneven_sizes(call)) {
      return first();
    }
    const std::size_t place = table_->place_of(call.kind, message_of(call), size());
    return place < routes_.size() ? *routes_[place] : first();
  }

  /// Null where the entry fits no call of this group.
  Result<Communicator*> communicator_of(const TransportEntry& entry) {
    const auto base = std::find_if(transports_.begin(), transports_.end(),
                                   [&](const NamedTransport& one) { return one.name == entry.transport; });
    if (base == transports_.end()) {
      std::vector<std::string> names;
      for (const NamedTransport& transport : transports_) {
        names.push_back(transport.name);
      }
      return failure(
          fmt::format("this job has no transport {}; it has {}", entry.transport, fmt::join(names, ", ")));
    }
    Communicator* const own = base->communicator.get();
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
  std::shared_ptr<const TransportTable> table_;
  // Before the transports they come from, they are destroyed.
  std::map<std::tuple<std::string, CommKind, std::string>, std::unique_ptr<Communicator>> made_;
  std::vector<Communicator*> routes_;  // by place in the table
};

}  // namespace

Result<std::unique_ptr<Communicator>> mixed(std::vector<NamedTransport> transports, TransportTable table) {
  COMMLENS_CHECK(!transports.empty(), "a job has a transport");
  for (const NamedTransport& transport : transports) {
    COMMLENS_CHECK(transport.communicator->members() == transports.front().communicator->members(),
                   "transports of one job have the same ranks in the same order");
  }
  auto communicator = std::make_unique<MixedCommunicator>(
      std::move(transports), std::make_shared<const TransportTable>(std::move(table)));
  return communicator->connect().map(
      [&]() -> std::unique_ptr<Communicator> { return std::move(communicator); });
}

Result<std::unique_ptr<Communicator>> mixed(std::unique_ptr<Communicator> world, const std::string& name,
                                            TransportTable table) {
  std::vector<NamedTransport> transports;
  transports.push_back({name, std::move(world)});
  return mixed(std::move(transports), std::move(table));
}

}  // namespace commlens
