#include "commlens/formats/kineto/sniff.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/kineto/events.hpp"

namespace commlens::formats::kineto {
namespace {

/// Kineto's own categories. Source: kineto libkineto/src/ActivityType.cpp.
constexpr std::array<std::string_view, 18> k_own_categories = {
    "cpu_op",       "user_annotation", "gpu_user_annotation", "external_correlation", "cuda_runtime",
    "cuda_driver",  "cuda_sync",       "gpu_memcpy",          "gpu_memset",           "cpu_instant_event",
    "xpu_runtime",  "hip_runtime",     "python_function",     "mtia_runtime",         "mtia_ccp_events",
    "glow_runtime", "hpu_op",          "privateuse1_runtime"};

/// Words that others may use as well: two of them, or one kernel with what Kineto says of it. Those with
/// capitals are of the first versions.
constexpr std::array<std::string_view, 7> k_common_categories = {"kernel",  "ac2g",   "overhead", "Kernel",
                                                                 "Runtime", "Memcpy", "Operator"};

template <typename Words>
bool is_one_of(std::string_view word, const Words& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// What the events seen so far say.
class Evidence {
 public:
  void take(const KinetoEvent& event) {
    const bool is_kernel = event.category == "kernel" || event.category == "Kernel";
    is_kineto_ = is_kineto_ || is_one_of(event.category, k_own_categories) ||
                 (is_kernel && (event.correlation || !event.metadata.collective.empty()));
    if (is_one_of(event.category, k_common_categories)) {
      common_.emplace(event.category);
    }
  }

  bool is_kineto() const { return is_kineto_ || common_.size() > 1; }

 private:
  bool is_kineto_ = false;
  std::set<std::string, std::less<>> common_;
};

bool has_kineto_events(const std::filesystem::path& path) {
  constexpr std::size_t furthest = std::size_t{64} << 20;
  Result<JsonStream> stream = JsonStream::open(path, "traceEvents");
  JsonStream::Piece piece;
  Evidence evidence;
  for (std::size_t seen = 0; stream && seen < furthest && !evidence.is_kineto(); seen += piece.json.size()) {
    const Result<bool> more = stream->next(piece);
    if (!more || !*more) {
      return false;
    }
    if (piece.is_run) {
      read_kineto_events(piece.json, [&](const KinetoEvent& event) { evidence.take(event); });
    } else if (piece.key == "schemaVersion") {
      return true;
    }
  }
  return evidence.is_kineto();
}

}  // namespace

bool sniff(const std::filesystem::path& path, std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos || head[first] != '{') {
    return false;
  }
  const auto has = [&](std::string_view part) { return head.find(part) != std::string_view::npos; };
  const bool has_events = has("\"traceEvents\"");
  const bool has_members = has("\"distributedInfo\"") || has("\"deviceProperties\"");
  if (has("\"schemaVersion\"") && (has_events || has_members)) {
    return true;
  }
  const bool is_our_export = has(R"("written_by":"commlens")");
  return (has_events || has_members) && !is_our_export && has_kineto_events(path);
}

}  // namespace commlens::formats::kineto
