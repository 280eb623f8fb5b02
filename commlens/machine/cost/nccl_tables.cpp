#include "commlens/machine/cost/nccl_tables.hpp"

namespace commlens {
namespace {

// NVIDIA/nccl src/graph/tuning.cc, tags v2.18.3-1 to v2.30.7-1.
constexpr std::array<std::array<double, k_nccl_tree_corrections>, 3> k_tree_correction = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

void set_latencies(NcclTables& tables) {
  const int minor = tables.minor;
  const bool has_long_tree = minor >= 19 && minor < 23;
  const double tree_base = minor >= 23 ? 8.4 : 0;
  tables.tree = {{6.8, 14, tree_base},
                 {.6, 1.25, has_long_tree ? 28.0 : 4.0},
                 {1, 1.9,
                  has_long_tree ? 28.0
                  : minor < 19  ? 6.0
                                : 4.0},
                 {5, 8.5, has_long_tree ? 28.0 : 14.0}};
  tables.ring = {{6.6, 14, 8.4}, {.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}};
  const double nvls = minor >= 21 ? 25 : minor >= 19 ? 23 : 0;
  const double nvls_base = minor < 19 ? 23 : 0;
  tables.nvls = {{0, 0, nvls_base}, {0, 0, nvls}, {}, {0, 0, 18}};
  tables.nvls_tree = {{0, 0, nvls_base},
                      {0, 0, nvls},
                      {},
                      {0, 0,
                       minor >= 29   ? 20.9
                       : minor >= 19 ? 14.0
                                     : 19.0}};
  tables.pat = {{8, 8, 8}, {0, 0, 4}, {0, 0, 4}, {0, 0, 14}};
  const ByProtocol collnet_base = minor < 19 ? ByProtocol{6.8, 14, 0} : ByProtocol{};
  tables.collnet_direct = {collnet_base,
                           {0, 0, minor < 19 ? 8 : 3.7},
                           {0, 0, minor < 19 ? 8 : 3.7},
                           {0, 0, minor < 19 ? 10.7 : 31}};
  tables.collnet_chain = {collnet_base,
                          {0, 0, minor < 19 ? 4.75 : 2.8},
                          {0, 0, minor < 19 ? 8 : 2.8},
                          {0, 0, minor < 19 ? 14.0 : 30.0}};
}

void set_caps(NcclTables& tables) {
  const int minor = tables.minor;
  constexpr BySpan twenty = {20, 20, 20};
  constexpr BySpan volta = {26.5, 18.5, 10};
  constexpr BySpan ampere = {24, 23.6, 17.8};
  tables.caps[0] = {{39, 39, 20.4}, twenty, twenty, volta, volta, 0};
  tables.caps[1] = {{87.7, 22.5, 19}, twenty, twenty, ampere, ampere, 0};
  tables.caps[2] = {minor >= 21 ? BySpan{141, 45, 35} : tables.caps[1].ll,
                    {36.7, 36.7, 36.7},
                    {36.7, 36.7, 29},
                    {38.7, 41.4, 36},
                    {0, 57.7, 45.5},
                    .85};
  // Releases before 2.25 know no such GPU and take their newest row, Hopper's.
  tables.caps[3] = tables.caps[2];
  if (minor >= 25) {
    tables.caps[3].ll = {282, 90, 70};
    tables.caps[3].ring_ll128 = minor >= 30   ? BySpan{40, 40, 40}
                                : minor >= 29 ? BySpan{34.5, 34.6, 34.5}
                                              : BySpan{73.4, 73.4, 73.4};
    tables.caps[3].tree_ll128 = minor >= 28 ? BySpan{55.6, 31.67, 20} : BySpan{73.4, 73.4, 58};
    tables.caps[3].tree = minor >= 28 ? BySpan{70, 42.8, 24} : BySpan{77.4, 82.8, 72};
    tables.caps[3].nvls_tree = {0, 96, minor >= 30 ? 80 : minor >= 29 ? 43.8 : 43.1};
    tables.caps[3].nvls_efficiency = .74;
  }
}

}  // namespace

NcclTables nccl_tables(int minor) {
  NcclTables tables;
  tables.minor = minor;
  set_latencies(tables);
  set_caps(tables);
  tables.ring_ll_by_op = minor < 21;
  tables.ring_ll128_share_one_per_node = minor >= 23 ? .92 : .7;
  tables.counts_all_inter_steps = minor < 23;
  tables.one_per_node_takes_tree_net = minor >= 23;
  tables.pat_share = minor >= 24 ? .75 : minor >= 23 ? .85 : 0;
  tables.nvls_has_efficiency = minor >= 28;
  tables.nvls_tree_halves = minor < 19;
  tables.nvls_gathers = minor >= 20;
  tables.nvls_gather_share = minor >= 27;
  return tables;
}

double nccl_tree_correction(std::size_t protocol, std::size_t k) { return k_tree_correction[protocol][k]; }

}  // namespace commlens
