// Expert parallelism where routers prefer experts: what ranks send and receive, and what a capacity bounds.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/reproduce/dispatch.hpp"
#include "commlens/app/reproduce/items.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_routed_model = "Mixtral 8x7B";
constexpr std::int64_t k_mixtral_hidden = 4096;

/// The rows of a setting, of each rank, for tokens of `hidden` elements.
void add_routed(Sheet& sheet, const char* panel, const RoutedTokens& tokens, std::int64_t hidden,
                const std::vector<DispatchedBytes>& bytes, const Series& series) {
  const Bytes balanced = Elements{tokens.router.tokens * tokens.router.top_k * hidden} * DType::bf16;
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
    const Bytes received = bytes[rank].received;
    sheet.add(
        {panel, k_routed_model, tokens.setting, "all_to_all", "ep", rank, bytes[rank].sent, received,
         static_cast<double>(received.value) / static_cast<double>(balanced.value), tokens.dropped_share()},
        series);
  }
}

/// What the fullest rank receives, over balanced routing, and what is dropped.
std::string fullest_text(const RoutedTokens& tokens) {
  const std::vector<std::int64_t> copies = tokens.copies(k_expert_ranks);
  const std::int64_t balanced = tokens.router.tokens * tokens.router.top_k / k_expert_ranks;
  constexpr double percent = 100;
  return fmt::format("{}: {:.2f} times{}", tokens.setting,
                     static_cast<double>(*std::ranges::max_element(copies)) / static_cast<double>(balanced),
                     tokens.dropped_share() > 0
                         ? fmt::format(", {:.1f} % of the copies dropped", percent * tokens.dropped_share())
                         : "");
}

Drawing routed_lines() {
  return {FigureKind::lines,
          {{"x", std::string("rank")},
           {"series", std::string("setting")},
           {"y", std::string("received_bytes_per_rank")},
           {"toggles", std::vector<std::string>{"received_bytes_per_rank", "imbalance"}}},
          {"panel", "model", "op", "axis", "series", "evidence", "provenance"}};
}

}  // namespace

ItemResult expert_imbalance(Study& study) {
  Sheet sheet({"panel", "model", "setting", "op", "axis", "rank", "message_bytes_per_rank",
               "received_bytes_per_rank", "imbalance", "dropped_share"});
  const std::vector<RoutedTokens> settings = routed_settings();
  const Series theory{
      "closed form", Evidence::exact,
      "a rank sends n k h elements, and receives ep times what a rank has for its experts; with a "
      "capacity at most C n k h (arXiv 2006.16668, 2101.03961)"};
  for (const RoutedTokens& tokens : settings) {
    add_routed(sheet, "a", tokens, k_mixtral_hidden, dispatched(tokens, k_mixtral_hidden), theory);
  }
  if (const std::optional<RecordedDispatches>& made = study.dispatches()) {
    const Series narrow{fmt::format("closed form, h = {}", made->hidden), Evidence::exact, theory.provenance};
    const Series here{fmt::format("recorded here, h = {}", made->hidden), Evidence::recorded_here,
                      made->provenance};
    for (std::size_t at = 0; at < settings.size(); ++at) {
      const std::int64_t hidden = made->hidden;
      add_routed(sheet, "", settings[at], hidden, dispatched(settings[at], hidden), narrow);
      add_routed(sheet, "b", settings[at], hidden, made->bytes.at(at), here);
    }
  }
  Item item{
      whole_of(sheet,
               fmt::format("Expert parallelism under a router that prefers experts: what each of {} ranks "
                           "sends and receives in one dispatch of a layer, its own experts' tokens "
                           "included. Mixtral's 8 experts, one a rank, 2 a token, 4,096 tokens a rank; the "
                           "e-th expert is wanted with the weight e^-z (Zipf z).",
                           k_expert_ranks),
               routed_lines()),
      {}};
  item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", "a"), "ep-imbalance-a",
                                 "Received by each rank, h = 4,096", "", routed_lines()));
  if (const Table recorded_rows = rows_with(sheet.table(), "panel", "b"); !recorded_rows.empty()) {
    item.panels.push_back(panel_of(recorded_rows, "ep-imbalance-b",
                                   "Recorded here: the same tokens, narrower", "", routed_lines()));
  }
  std::vector<std::string> fullest;
  for (const RoutedTokens& tokens : settings) {
    fullest.push_back(fullest_text(tokens));
  }
  item.whole.notes.push_back(
      fmt::format("The fullest rank receives, over balanced routing: {}. All ranks wait for it.",
                  fmt::join(fullest, "; ")));
  item.whole.notes.emplace_back(
      "A capacity C bounds what an expert takes of each rank, so that no rank receives more than C times the "
      "balanced tokens; copies above it are dropped. It does not fill the others: those that pad do that, "
      "and "
      "send C times the balanced tokens whatever the routing. Combine sends the same back, sent and received "
      "exchanged.");
  return item;
}

}  // namespace commlens::study
