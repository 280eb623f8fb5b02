#include "commlens/app/reproduce/items.hpp"

#include <array>

#include "commlens/base/check.hpp"

namespace commlens::study {
namespace {

constexpr std::string_view k_conclusions = "What the paper concludes";
constexpr std::string_view k_motivation = "Motivation: Figures 1 to 3";
constexpr std::string_view k_background = "Background: Figures 4 and 5";
constexpr std::string_view k_model = "Performance model: Table I, Equations 1 to 5";
constexpr std::string_view k_system = "System: Table II, Figure 6, interconnect";
constexpr std::string_view k_data = "Data parallelism and ZeRO: Figures 7 to 10";
constexpr std::string_view k_split_model = "Pipeline and tensor parallelism: Figures 11 to 13";
constexpr std::string_view k_length = "Sequence length: Figures 14 and 15";
constexpr std::string_view k_notes = "Footnotes";
constexpr std::string_view k_today = "2024 against today";
constexpr std::string_view k_future = "The paper's future work";
constexpr std::string_view k_jobs = "Jobs of today on five machines";

constexpr std::array<ItemEntry, 38> k_items = {{
    {"takeaways", "Takeaways as checks", k_conclusions, takeaways, 1},
    {"fig-1", "Figure 1: 13B, ZeRO-1 and 8 tensor ranks", k_motivation, zero1_time_13b, 3},
    {"fig-2", "Figure 2: 20B, ZeRO-1 and 8 tensor ranks", k_motivation, zero1_time_20b, 3},
    {"fig-3", "Figure 3: What must be considered", k_motivation, sweep_space},
    {"fig-4", "Figure 4: 3D parallelism", k_background, rank_grid},
    {"fig-5", "Figure 5: ZeRO-3 gathers before every layer", k_background, gather_timeline, 1},
    {"table-1", "Table I: Variable names", k_model, variable_names},
    {"eq-1", "Equation 1: Parameters", k_model, equation_1},
    {"eq-2", "Equation 2: DDP, ZeRO-1, ZeRO-2", k_model, equation_2},
    {"eq-3", "Equation 3: ZeRO-3", k_model, equation_3},
    {"eq-4", "Equation 4: Pipeline parallelism", k_model, equation_4},
    {"eq-5", "Equation 5: Tensor parallelism", k_model, equation_5},
    {"table-2", "Table II: Setup", k_system, setups},
    {"fig-6", "Figure 6: A node of Frontier", k_system, node_topology},
    {"interconnect", "Interconnect: This machine at the models' own sizes", k_system, interconnect},
    {"fig-7", "Figure 7: Shares of operations under ZeRO", k_data, zero_shares},
    {"fig-8", "Figure 8: Volumes under ZeRO", k_data, zero_volumes},
    {"fig-9", "Figure 9: Sizes of all_gathers under ZeRO-3", k_data, gather_sizes},
    {"fig-10", "Figure 10: DDP and ZeRO against theory", k_data, zero_theory},
    {"fig-11", "Figure 11: Volumes of pipeline and tensor parallelism", k_split_model, model_volumes},
    {"fig-12", "Figure 12: Operations of pipeline and tensor parallelism", k_split_model, model_breakdown},
    {"fig-13", "Figure 13: Pipeline and tensor parallelism against theory", k_split_model, model_theory},
    {"cold-receive", "Cold receive: First and later messages of each pair", k_split_model, cold_receive},
    {"fig-14", "Figure 14: Gathers and throughput by sequence length", k_length, sequence_gathers, 1},
    {"fig-15", "Figure 15: Messages and throughput by sequence length", k_length, sequence_messages},
    {"footnotes", "Footnotes 1 to 5", k_notes, footnotes},
    {"today", "Today: The same configuration by each framework", k_today, frameworks_today},
    {"ep", "Expert parallelism: Closed form and frameworks", k_future, expert_parallelism},
    {"ep-imbalance", "Expert imbalance: Skewed routers and capacities", k_future, expert_imbalance},
    {"cp", "Context parallelism: Closed forms and frameworks", k_future, context_parallelism},
    {"hsdp", "Hybrid sharding: Closed form and PyTorch", k_future, hybrid_sharding},
    {"zeropp", "ZeRO++: What leaves the node", k_future, quantised_zero},
    {"jobs-today", "Jobs of today: What they send", k_jobs, jobs_today},
    {"jobs-frontier", "Frontier: Jobs of today", k_jobs, jobs_frontier, 2},
    {"jobs-aurora", "Aurora: Jobs of today", k_jobs, jobs_aurora, 8},
    {"jobs-vista", "Vista: Jobs of today", k_jobs, jobs_vista, 2},
    {"jobs-dgx-h100", "DGX H100: Jobs of today", k_jobs, jobs_dgx_h100, 4},
    {"jobs-gb200", "GB200 NVL72: Jobs of today", k_jobs, jobs_gb200, 18},
}};

}  // namespace

std::span<const ItemEntry> item_entries() { return k_items; }

MadeItem made(const ItemEntry& entry, Study& study) {
  MadeItem result{&entry, entry.make(study)};
  if (result.item) {
    Figure& whole = result.item->whole;
    whole.id = entry.id;
    whole.title = entry.title;
    for (const FigureColumn& column : whole.columns) {
      COMMLENS_CHECK(column.rows() == whole.rows(), "all columns of a figure have the same number of rows");
    }
  }
  return result;
}

}  // namespace commlens::study
