#include "commlens/config/yaml_document.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/null.h>
#include <yaml-cpp/parser.h>

#include "commlens/config/tree_builder.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_longest_yaml_reason = 160;

/// Passes yaml-cpp's events on. Throws yaml-cpp's own exception to stop the parser once the builder has
/// failed.
class YamlHandler final : public YAML::EventHandler {
 public:
  explicit YamlHandler(TreeBuilder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& mark) override { mark_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.null(line_of(mark));
    done(mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw YAML::ParserException(mark, "an alias is inside the value it refers to");
    }
    builder_.copy(found->second, line_of(mark));
    done(mark, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!quoted && YAML::IsNullString(value)) {
      builder_.null(line_of(mark));
    } else {
      builder_.scalar(value, quoted, line_of(mark));
    }
    done(mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(ConfigNode::Kind::list, mark, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(ConfigNode::Kind::map, mark, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  static int line_of(const YAML::Mark& mark) { return mark.line + 1; }

  void begin(ConfigNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    builder_.begin(kind, line_of(mark));
    open_anchors_.push_back(anchor);
    mark_ = mark;
    stop_when_failed();
  }
  void end() {
    builder_.end();
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    done(mark_, anchor);
  }
  void done(const YAML::Mark& mark, YAML::anchor_t anchor) {
    mark_ = mark;
    if (anchor != 0) {
      if (const ConfigNode* node = builder_.last_finished()) {
        anchors_[anchor] = *node;
      }
    }
    stop_when_failed();
  }
  void stop_when_failed() const {
    if (builder_.failed()) {
      throw YAML::ParserException(mark_, "stopped");
    }
  }

  TreeBuilder& builder_;
  YAML::Mark mark_;
  std::vector<YAML::anchor_t> open_anchors_;
  std::map<YAML::anchor_t, ConfigNode> anchors_;
};

/// Line at which flow brackets nest deeper than the tree may: yaml-cpp need not see such a text. Brackets in
/// comments count too, which no configuration notices.
std::optional<int> too_deep_at(std::string_view content) {
  std::size_t depth = 0;
  int line = 1;
  for (const char letter : content) {
    line += letter == '\n' ? 1 : 0;
    if (letter == '[' || letter == '{') {
      ++depth;
    } else if ((letter == ']' || letter == '}') && depth > 0) {
      --depth;
    }
    if (depth > TreeBuilder::k_deepest) {
      return line;
    }
  }
  return std::nullopt;
}

/// Two indicators ("- - - a", "? ? a") open a level each without any indentation.
std::optional<int> too_many_indicators_at(std::string_view content) {
  std::size_t run = 0;
  int line = 1;
  for (const char letter : content) {
    line += letter == '\n' ? 1 : 0;
    if (letter == '-' || letter == '?' || letter == ':') {
      ++run;
    } else if (letter != ' ') {
      run = 0;
    }
    if (run > 4 * TreeBuilder::k_deepest) {
      return line;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<ConfigNode> parse_yaml(std::string_view file, const std::string& content) {
  if (const Result<void> text = check_is_text(file, content); !text) {
    return tl::unexpected(text.error());
  }
  for (const auto scan : {too_deep_at, too_many_indicators_at}) {
    if (const std::optional<int> line = scan(content)) {
      return failure(fmt::format("{}:{}: nested deeper than {} levels", file, *line, TreeBuilder::k_deepest));
    }
  }
  TreeBuilder builder(file);
  try {
    std::istringstream stream(content);
    YAML::Parser parser(stream);
    YamlHandler handler(builder);
    parser.HandleNextDocument(handler);
    if (parser.HandleNextDocument(handler)) {
      return failure(fmt::format("{}: more than one YAML document; split the file", file));
    }
  } catch (const YAML::Exception& problem) {
    if (builder.failed()) {
      return failure(builder.error());
    }
    return failure(fmt::format("{}:{}: not valid YAML: {}", file, problem.mark.line + 1,
                               shown_text(problem.msg, k_longest_yaml_reason)));
  }
  if (!builder.has_root()) {
    return failure(fmt::format("{}: the file holds no value", file));
  }
  return builder.root();
}

}  // namespace commlens
