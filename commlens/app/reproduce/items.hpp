#pragma once
#include <span>
#include <string_view>

#include <tl/expected.hpp>

#include "commlens/app/reproduce/sheet.hpp"
#include "commlens/app/reproduce/study.hpp"
#include "commlens/report/figures/figures.hpp"

namespace commlens::study {

using ItemResult = tl::expected<Item, NoFigure>;

/// A figure, table or list of the paper: its id, which is its number there, its title and section in the
/// page, and the function that makes it of a study.
struct ItemEntry {
  std::string_view id;
  std::string_view title;
  std::string_view section;
  ItemResult (*make)(Study& study);
  /// Seconds that its simulations take the first time, beside the others of a page: for the remaining time
  /// that is shown.
  double simulating_s = 0;
};

/// The list, in the order of the page; entries of a section are consecutive.
std::span<const ItemEntry> item_entries();

/// An entry's item, or the reason why it is absent.
struct MadeItem {
  const ItemEntry* entry = nullptr;
  ItemResult item;
};
/// With the entry's id and title.
MadeItem made(const ItemEntry& entry, Study& study);

ItemResult zero1_time_13b(Study& study);     // Fig. 1
ItemResult zero1_time_20b(Study& study);     // Fig. 2
ItemResult sweep_space(Study& study);        // Fig. 3
ItemResult rank_grid(Study& study);          // Fig. 4
ItemResult gather_timeline(Study& study);    // Fig. 5
ItemResult node_topology(Study& study);      // Fig. 6
ItemResult zero_shares(Study& study);        // Fig. 7
ItemResult zero_volumes(Study& study);       // Fig. 8
ItemResult gather_sizes(Study& study);       // Fig. 9
ItemResult zero_theory(Study& study);        // Fig. 10
ItemResult model_volumes(Study& study);      // Fig. 11
ItemResult model_breakdown(Study& study);    // Fig. 12
ItemResult model_theory(Study& study);       // Fig. 13
ItemResult sequence_gathers(Study& study);   // Fig. 14
ItemResult sequence_messages(Study& study);  // Fig. 15
ItemResult variable_names(Study& study);     // Table I
ItemResult setups(Study& study);             // Table II
ItemResult equation_1(Study& study);
ItemResult equation_2(Study& study);
ItemResult equation_3(Study& study);
ItemResult equation_4(Study& study);
ItemResult equation_5(Study& study);
ItemResult footnotes(Study& study);
ItemResult takeaways(Study& study);
ItemResult frameworks_today(Study& study);
ItemResult expert_parallelism(Study& study);
ItemResult expert_imbalance(Study& study);
ItemResult context_parallelism(Study& study);
ItemResult hybrid_sharding(Study& study);  // HSDP
ItemResult quantised_zero(Study& study);   // ZeRO++
ItemResult jobs_today(Study& study);
ItemResult jobs_frontier(Study& study);
ItemResult jobs_aurora(Study& study);
ItemResult jobs_vista(Study& study);
ItemResult jobs_dgx_h100(Study& study);
ItemResult jobs_gb200(Study& study);
ItemResult cold_receive(Study& study);  // the paper's remark on first receives, over lazy connections
ItemResult interconnect(Study& study);  // the paper's benchmarks of the network, of this machine

/// The rows of Figures 10 and 13, which show what Eqs 2 to 5 say against what is sent.
Sheet zero_theory_sheet(Study& study);
Sheet model_theory_sheet(Study& study);

}  // namespace commlens::study
