#include "tests/simulators/goal_player.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

namespace commlens::test {
namespace {

struct Operation {
  enum class Kind : std::uint8_t { send, receive, calc };
  Kind kind = Kind::calc;
  std::int64_t size = 0;  // bytes, or ticks of computing
  std::int64_t peer = 0;
  std::int64_t tag = 0;
  std::int64_t processor = 0;
  std::int64_t waits = 0;             // starts and ends that have not come yet
  std::vector<std::size_t> on_start;  // operations that wait for this one's start
  std::vector<std::size_t> on_end;
  bool has_started = false;
  bool has_ended = false;
};

using Schedules = std::map<std::int64_t, std::vector<Operation>>;

/// Reads the text, line by line.
class GoalReader {
 public:
  explicit GoalReader(const std::string& text) : lines_(text) {}

  std::string read(Schedules& schedules) {
    for (std::string line; std::getline(lines_, line);) {
      ++number_;
      words_.clear();
      std::istringstream words(line);
      for (std::string word; words >> word && !word.starts_with("//");) {
        words_.push_back(word);
      }
      if (!words_.empty() && !take(schedules)) {
        return fmt::format("line {}: {}", number_, line);
      }
    }
    const bool is_whole = rank_ < 0 && static_cast<std::int64_t>(schedules.size()) == ranks_;
    return is_whole ? "" : "the text ends early, or a rank has no schedule";
  }

 private:
  bool take(Schedules& schedules) {
    if (words_[0] == "num_ranks") {
      return words_.size() == 2 && number(1, ranks_);
    }
    if (words_[0] == "rank") {
      labels_.clear();
      return words_.size() == 3 && rank_ < 0 && words_[2] == "{" && number(1, rank_) && rank_ < ranks_ &&
             schedules.try_emplace(rank_).second;
    }
    if (words_[0] == "}") {
      rank_ = words_.size() == 1 ? -1 : rank_;
      return rank_ < 0;
    }
    if (rank_ < 0 || words_.size() < 3) {
      return false;
    }
    std::vector<Operation>& operations = schedules[rank_];
    return words_[0].ends_with(':') ? take_operation(operations) : take_dependency(operations);
  }

  bool take_operation(std::vector<Operation>& operations) {
    Operation operation;
    std::size_t next = 3;
    if (words_[1] == "calc") {
      if (!number(2, operation.size)) {
        return false;
      }
    } else {
      const bool sends = words_[1] == "send";
      if (!(sends || words_[1] == "recv") || words_.size() < 5 || !words_[2].ends_with('b') ||
          words_[3] != (sends ? "to" : "from") || !number(4, operation.peer) || operation.peer >= ranks_) {
        return false;
      }
      operation.kind = sends ? Operation::Kind::send : Operation::Kind::receive;
      words_[2].pop_back();
      if (!number(2, operation.size) || operation.size < 1) {
        return false;
      }
      next = 5;
    }
    for (; next + 1 < words_.size(); next += 2) {
      std::int64_t nic = 0;
      std::int64_t& value = words_[next] == "tag"   ? operation.tag
                            : words_[next] == "cpu" ? operation.processor
                                                    : nic;
      if (!number(next + 1, value)) {
        return false;
      }
    }
    const bool is_new =
        labels_.try_emplace(words_[0].substr(0, words_[0].size() - 1), operations.size()).second;
    operations.push_back(std::move(operation));
    return is_new && next == words_.size();
  }

  bool take_dependency(std::vector<Operation>& operations) {
    const auto later = labels_.find(words_[0]);
    const auto before = labels_.find(words_[2]);
    const bool is_end = words_[1] == "requires";
    if (words_.size() != 3 || !(is_end || words_[1] == "irequires") || later == labels_.end() ||
        before == labels_.end()) {
      return false;
    }
    Operation& first = operations[before->second];
    (is_end ? first.on_end : first.on_start).push_back(later->second);
    ++operations[later->second].waits;
    return true;
  }

  /// At most nine digits more than a 32-bit number has, so that nothing overflows.
  bool number(std::size_t at, std::int64_t& value) const {
    const std::string& word = words_[at];
    const bool is_number = !word.empty() && word.size() <= 18 &&
                           std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    value = is_number ? std::stoll(word) : 0;
    return is_number;
  }

  std::istringstream lines_;
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::size_t> labels_;
  std::int64_t number_ = 0;
  std::int64_t ranks_ = -1;
  std::int64_t rank_ = -1;
};

struct Place {
  std::int64_t rank = 0;
  std::size_t operation = 0;
};

struct GoalEvent {
  enum class Kind : std::uint8_t { may_start, ends, arrives };
  std::int64_t time = 0;
  std::int64_t order = 0;  // of events at one time
  Kind kind = Kind::may_start;
  Place place;
  friend bool operator>(const GoalEvent& a, const GoalEvent& b) {
    return std::tie(a.time, a.order) > std::tie(b.time, b.order);
  }
};

class GoalPlayer {
 public:
  GoalPlayer(Schedules& schedules, const GoalMachine& machine) : schedules_(schedules), machine_(machine) {}

  void play(PlayedGoal& played) {
    for (auto& [rank, operations] : schedules_) {
      played.operations += static_cast<std::int64_t>(operations.size());
      for (std::size_t at = 0; at < operations.size(); ++at) {
        if (operations[at].waits == 0) {
          add(0, GoalEvent::Kind::may_start, {rank, at});
        }
      }
    }
    while (!events_.empty()) {
      const GoalEvent event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == GoalEvent::Kind::may_start) {
        start(event.place);
      } else if (event.kind == GoalEvent::Kind::ends) {
        end(event.place);
      } else {
        arrive(event.place);
      }
    }
    count(played);
  }

 private:
  /// Posted receives, and messages that came before their receive, of a destination, source and tag.
  struct Queue {
    std::deque<Place> receives;
    std::deque<Place> messages;
  };

  Operation& at(const Place& place) { return schedules_[place.rank][place.operation]; }

  void add(std::int64_t time, GoalEvent::Kind kind, const Place& place) {
    events_.push({time, order_++, kind, place});
  }

  std::int64_t& free_at(const Place& place) { return free_at_[{place.rank, at(place).processor}]; }

  void start(const Place& place) {
    Operation& operation = at(place);
    const bool takes_processor = operation.kind != Operation::Kind::receive;
    if (takes_processor && free_at(place) > now_) {
      add(free_at(place), GoalEvent::Kind::may_start, place);
      return;
    }
    operation.has_started = true;
    if (operation.kind == Operation::Kind::calc) {
      free_at(place) = now_ + operation.size;
      add(now_ + operation.size, GoalEvent::Kind::ends, place);
    } else if (operation.kind == Operation::Kind::send) {
      free_at(place) = now_ + machine_.overhead;
      add(now_ + machine_.overhead + machine_.latency, GoalEvent::Kind::arrives, place);
      if (operation.size <= machine_.eager) {
        add(now_ + machine_.overhead, GoalEvent::Kind::ends, place);
      }
    } else {
      Queue& queue = queues_[{place.rank, operation.peer, operation.tag}];
      queue.receives.push_back(place);
      match(queue);
    }
    release(place.rank, operation.on_start);
  }

  void arrive(const Place& place) {
    const Operation& send = at(place);
    Queue& queue = queues_[{send.peer, place.rank, send.tag}];
    queue.messages.push_back(place);
    match(queue);
  }

  void match(Queue& queue) {
    while (!queue.receives.empty() && !queue.messages.empty()) {
      const Place receive = queue.receives.front();
      const Place message = queue.messages.front();
      queue.receives.pop_front();
      queue.messages.pop_front();
      wrong_sizes_ += at(receive).size == at(message).size ? 0 : 1;
      add(now_ + machine_.overhead, GoalEvent::Kind::ends, receive);
      if (at(message).size > machine_.eager) {
        add(now_, GoalEvent::Kind::ends, message);
      }
    }
  }

  void end(const Place& place) {
    at(place).has_ended = true;
    release(place.rank, at(place).on_end);
  }

  void release(std::int64_t rank, const std::vector<std::size_t>& waiting) {
    for (const std::size_t operation : waiting) {
      if (--schedules_[rank][operation].waits == 0) {
        add(now_, GoalEvent::Kind::may_start, {rank, operation});
      }
    }
  }

  void count(PlayedGoal& played) const {
    for (const auto& [rank, operations] : schedules_) {
      played.sent.push_back(0);
      for (const Operation& operation : operations) {
        played.unstarted += operation.has_started ? 0 : 1;
        played.unended += operation.has_ended ? 0 : 1;
        const bool is_sent = operation.kind == Operation::Kind::send && operation.has_started;
        played.sent.back() += is_sent ? operation.size : 0;
      }
    }
    for (const auto& [key, queue] : queues_) {
      played.left_receives += static_cast<std::int64_t>(queue.receives.size());
      played.left_messages += static_cast<std::int64_t>(queue.messages.size());
    }
    played.wrong_sizes = wrong_sizes_;
    played.end = now_;
  }

  Schedules& schedules_;
  const GoalMachine& machine_;
  std::priority_queue<GoalEvent, std::vector<GoalEvent>, std::greater<>> events_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Queue> queues_;  // destination, source, tag
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> free_at_;         // rank, processor
  std::int64_t now_ = 0;
  std::int64_t order_ = 0;
  std::int64_t wrong_sizes_ = 0;
};

}  // namespace

std::string PlayedGoal::text() const {
  return fmt::format(
      "{}{} operations: {} never started, {} never ended; {} receives and {} messages left over, {} of a "
      "wrong size",
      error, operations, unstarted, unended, left_receives, left_messages, wrong_sizes);
}

PlayedGoal play_goal(const std::string& text, const GoalMachine& machine) {
  PlayedGoal played;
  Schedules schedules;
  played.error = GoalReader(text).read(schedules);
  if (played.error.empty()) {
    GoalPlayer(schedules, machine).play(played);
  }
  return played;
}

}  // namespace commlens::test
