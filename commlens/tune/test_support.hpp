#pragma once
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

/// Test support: readers of rule files, as the libraries read them.
namespace commlens::tune::test {

/// Open MPI's (coll_tuned_dynamic_file.c, coll_tuned_dynamic_rules.c of 4.1.4): numbers, and comments from #
/// to the end of a line.
class OpenMpiFile {
 public:
  explicit OpenMpiFile(const std::string& text) {
    std::istringstream lines(text);
    std::string numbers;
    for (std::string line; std::getline(lines, line);) {
      numbers += line.substr(0, line.find('#')) + " ";
    }
    std::istringstream in(numbers);
    for (std::int64_t left = next(in); left > 0; --left) {
      std::vector<Set>& sets = collectives_[next(in)];
      for (std::int64_t sets_left = next(in); sets_left > 0; --sets_left) {
        Set& set = sets.emplace_back();
        set.ranks = next(in);
        for (std::int64_t rules = next(in); rules > 0; --rules) {
          const std::int64_t bytes = next(in);
          const std::int64_t algorithm = next(in);
          const std::int64_t fan = next(in);
          next(in);  // the segment
          set.entries.push_back({bytes, {algorithm, fan}});
        }
      }
    }
    std::string more;
    is_whole_ = !in.fail() && !(in >> more);
  }

  /// Whether the file has as many numbers as it says.
  bool is_whole() const { return is_whole_; }

  /// Algorithm and fan of a call; 0: Open MPI's decision. The last set with no more ranks counts, and the
  /// first one if there is none; in it the last entry with no more bytes. A set whose first entry is not at 0
  /// bytes makes Open MPI ignore the file: -1.
  std::pair<std::int64_t, std::int64_t> of(std::int64_t collective, std::int64_t ranks,
                                           std::int64_t bytes) const {
    const auto found = collectives_.find(collective);
    if (found == collectives_.end()) {
      return {0, 0};
    }
    const Set* chosen = &found->second.front();
    for (const Set& set : found->second) {
      chosen = set.ranks <= ranks ? &set : chosen;
    }
    if (chosen->entries.front().first != 0) {
      return {-1, 0};
    }
    std::pair<std::int64_t, std::int64_t> last;
    for (const auto& [from, algorithm] : chosen->entries) {
      last = from <= bytes ? algorithm : last;
    }
    return last;
  }

 private:
  struct Set {
    std::int64_t ranks = 0;
    std::vector<std::pair<std::int64_t, std::pair<std::int64_t, std::int64_t>>> entries;
  };
  static std::int64_t next(std::istream& in) {
    std::int64_t number = 0;
    in >> number;
    return number;
  }
  std::map<std::int64_t, std::vector<Set>> collectives_;
  bool is_whole_ = false;
};

/// NCCL's example plug-in (plugins/tuner/example/plugin.c): lines of at most 255 characters, those that start
/// with # are comments, the first that matches counts, unknown names become allreduce, ring and simple.
class NcclPlugin {
 public:
  explicit NcclPlugin(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), at + 255);  // fgets of 256
      add(text.substr(at, end - at));
      at = text[end] == '\n' ? end + 1 : end;
    }
  }

  /// "tree/simple"; empty: NCCL's choice.
  std::string of(const std::string& collective, std::uint64_t bytes, int nodes, int ranks) const {
    for (const Line& line : lines_) {
      if (line.collective == collective && bytes >= line.least && bytes <= line.most &&
          (line.nodes == -1 || line.nodes == nodes) && (line.ranks == -1 || line.ranks == ranks)) {
        return line.algorithm;
      }
    }
    return "";
  }

 private:
  struct Line {
    std::string collective;
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    std::string algorithm;
    int nodes = -1;
    int ranks = -1;
  };

  static std::string known(const std::string& name, const std::string& names, const std::string& otherwise) {
    return (" " + names + " ").find(" " + name + " ") == std::string::npos ? otherwise : name;
  }

  void add(const std::string& line) {
    if (line.empty() || line[0] == '#') {
      return;
    }
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) {
      fields.push_back(field);
    }
    if (fields.size() < 8 || fields.size() > 10) {
      return;
    }
    lines_.push_back({known(fields[0], "broadcast reduce allgather reducescatter allreduce", "allreduce"),
                      std::strtoull(fields[1].c_str(), nullptr, 10),
                      std::strtoull(fields[2].c_str(), nullptr, 10),
                      known(fields[3], "tree ring collnet_direct collnet_chain nvls nvls_tree pat", "ring") +
                          "/" + known(fields[4], "ll ll128 simple", "simple"),
                      std::atoi(fields[6].c_str()), std::atoi(fields[7].c_str())});
  }

  std::vector<Line> lines_;
};

/// A call as MPICH's tree sees it (src/mpi/coll/src/csel.c).
struct MpichCall {
  std::string collective;
  std::int64_t ranks = 2;
  std::int64_t count = 1;
  std::int64_t avg_bytes = 0;
  std::int64_t total_bytes = 0;
  bool op_built_in = true;
  bool commutative = true;
  bool in_place = false;
  bool hierarchy = true;
};

/// The algorithm that the tree gives; empty: none, which ends the job.
inline std::string mpich_choice(const nlohmann::ordered_json& tree, const MpichCall& call) {
  const auto holds = [&](const std::string& key) {
    const auto number = [&](std::string_view prefix) -> std::optional<std::int64_t> {
      const bool has = key.rfind(prefix, 0) == 0;
      return has ? std::optional(std::atoll(key.c_str() + prefix.size())) : std::nullopt;
    };
    const auto compared = [&](std::string_view name, std::int64_t value) -> std::optional<bool> {
      if (const auto most = number(std::string(name) + "<=")) {
        return value <= *most;
      }
      const auto below = number(std::string(name) + "<");
      return below ? std::optional(value < *below) : std::nullopt;
    };
    std::int64_t pow2 = 1;
    while (pow2 * 2 <= call.ranks) {
      pow2 *= 2;
    }
    const std::map<std::string, bool> words{{"comm_type=intra", true},
                                            {"comm_type=inter", false},
                                            {"comm_size=pow2", pow2 == call.ranks},
                                            {"comm_hierarchy=parent", call.hierarchy},
                                            {"is_op_built_in=yes", call.op_built_in},
                                            {"is_op_built_in=no", !call.op_built_in},
                                            {"is_commutative=yes", call.commutative},
                                            {"is_commutative=no", !call.commutative},
                                            {"is_sendbuf_inplace=yes", call.in_place},
                                            {"is_sendbuf_inplace=no", !call.in_place},
                                            {"count<pow2", call.count < pow2}};
    if (const auto word = words.find(key); word != words.end()) {
      return word->second;
    }
    if (key.size() > 4 && key.substr(key.size() - 4) == "=any") {
      return true;
    }
    for (const auto& [name, value] : {std::pair{"comm_size", call.ranks},
                                      {"avg_msg_size", call.avg_bytes},
                                      {"total_msg_size", call.total_bytes}}) {
      if (const auto answer = compared(name, value)) {
        return *answer;
      }
    }
    return key == "collective=" + call.collective;
  };
  const nlohmann::ordered_json* node = &tree;
  while (true) {
    if (node->size() == 1 && node->begin().key().rfind("algorithm=", 0) == 0) {
      return node->begin().key().substr(10);
    }
    const nlohmann::ordered_json* next = nullptr;
    for (auto child = node->begin(); child != node->end() && next == nullptr; ++child) {
      next = holds(child.key()) ? &child.value() : nullptr;
    }
    if (next == nullptr) {
      return "";
    }
    node = next;
  }
}

}  // namespace commlens::tune::test
