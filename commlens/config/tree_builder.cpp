#include "commlens/config/tree_builder.hpp"

#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

std::int64_t nodes_in(const ConfigNode& node) {
  std::int64_t nodes = 1;
  for (const ConfigNode& item : node.items) {
    nodes += nodes_in(item);
  }
  return nodes;
}

}  // namespace

void TreeBuilder::fail(int line, std::string_view reason) {
  if (error_.empty()) {
    error_ = fmt::format("{}:{}: {}", file_, line, reason);
  }
}

void TreeBuilder::count(std::int64_t nodes, int line) {
  nodes_ += nodes;
  if (nodes_ > k_most_nodes) {
    fail(line,
         fmt::format("more than {} values (aliases expanded); no configuration is that large", k_most_nodes));
  }
}

ConfigNode TreeBuilder::made(ConfigNode::Kind kind, int line) const {
  ConfigNode node;
  node.kind = kind;
  node.line = line;
  node.file = file_;
  return node;
}

void TreeBuilder::begin(ConfigNode::Kind kind, int line) {
  count(1, line);
  if (open_.size() >= k_deepest) {
    fail(line, fmt::format("nested deeper than {} levels", k_deepest));
  }
  if (!failed()) {
    open_.push_back({made(kind, line), false, ""});
  }
}

void TreeBuilder::end() {
  if (failed() || open_.empty()) {
    return;
  }
  ConfigNode node = std::move(open_.back().node);
  open_.pop_back();
  finish(std::move(node));
}

void TreeBuilder::scalar(std::string text, bool quoted, int line) {
  count(1, line);
  if (failed()) {
    return;
  }
  ConfigNode node = made(ConfigNode::Kind::scalar, line);
  node.text = std::move(text);
  node.quoted = quoted;
  finish(std::move(node));
}

void TreeBuilder::null(int line) {
  count(1, line);
  if (!failed()) {
    finish(made(ConfigNode::Kind::null, line));
  }
}

void TreeBuilder::copy(const ConfigNode& node, int line) {
  count(nodes_in(node), line);
  if (!failed()) {
    finish(node);
  }
}

const ConfigNode* TreeBuilder::last_finished() {
  if (failed() || (open_.empty() && !has_root_)) {
    return nullptr;
  }
  if (open_.empty()) {
    return &root_;
  }
  if (open_.back().has_key || open_.back().node.items.empty()) {
    return nullptr;  // it was a key
  }
  const ConfigNode& last = open_.back().node.items.back();
  count(nodes_in(last), last.line);
  return failed() ? nullptr : &last;
}

void TreeBuilder::finish(ConfigNode node) {
  if (open_.empty()) {
    root_ = std::move(node);
    has_root_ = true;
    return;
  }
  Open& parent = open_.back();
  if (parent.node.kind == ConfigNode::Kind::list) {
    parent.node.items.push_back(std::move(node));
  } else if (parent.has_key) {
    append(parent.node, std::move(parent.key), std::move(node));
    parent.has_key = false;
  } else if (node.kind != ConfigNode::Kind::scalar) {
    fail(node.line, "a key must be plain text");
  } else if (node.text == "<<" && !node.quoted) {
    fail(node.line, "merge keys (<<) are not supported; write the keys out");
  } else {
    parent.key = std::move(node.text);
    parent.has_key = true;
  }
}

}  // namespace commlens
