#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/config/tree.hpp"

namespace commlens {

/// Makes a ConfigNode from the events of a parser, within limits that keep hostile files harmless. In a map,
/// keys and values alternate. The first broken limit is kept in `error` and everything after it is ignored.
class TreeBuilder {
 public:
  static constexpr std::size_t k_deepest = 64;
  static constexpr std::int64_t k_most_nodes = 100'000;

  explicit TreeBuilder(std::string_view file) : file_(file) {}

  void begin(ConfigNode::Kind kind, int line);
  void end();
  void scalar(std::string text, bool quoted, int line);
  void null(int line);
  void copy(const ConfigNode& node, int line);  // an alias of a finished node

  /// The node finished last, for anchors; counts towards the limit, since anchors keep a copy.
  const ConfigNode* last_finished();

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }  // "file:line: …"
  const ConfigNode& root() const { return root_; }
  bool has_root() const { return has_root_; }

 private:
  struct Open {
    ConfigNode node;
    bool has_key = false;
    std::string key;
  };
  void fail(int line, std::string_view reason);
  void count(std::int64_t nodes, int line);
  void finish(ConfigNode node);
  ConfigNode made(ConfigNode::Kind kind, int line) const;

  std::string file_;
  std::string error_;
  std::vector<Open> open_;
  ConfigNode root_;
  bool has_root_ = false;
  std::int64_t nodes_ = 0;
};

}  // namespace commlens
