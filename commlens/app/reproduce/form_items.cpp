// Expert and context parallelism, hybrid sharding: what frameworks of today send beside the closed forms of
// the literature.
#include <fmt/format.h>

#include "commlens/app/reproduce/contests.hpp"
#include "commlens/app/reproduce/items.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_mixtral_arguments =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention\n"
    "--num-query-groups 8 --ffn-hidden-size 14336 --seq-length 4096 --max-position-embeddings 4096\n"
    "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights\n"
    "--position-embedding-type rope --vocab-size 32000 --tokenizer-type NullTokenizer --bf16\n"
    "--num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss\n"
    "--micro-batch-size 1\n";

constexpr const char* k_llama_arguments =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention\n"
    "--num-query-groups 8 --ffn-hidden-size 14336 --seq-length 8192 --max-position-embeddings 8192\n"
    "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights\n"
    "--position-embedding-type rope --vocab-size 128256 --tokenizer-type NullTokenizer --bf16\n"
    "--micro-batch-size 1 --global-batch-size 1\n";

constexpr const char* k_llama_case =
    "framework: torch-fsdp\n"
    "framework_version: \"2.15.0\"\n"
    "iterations: 3\n"
    "precision: fp32\n"
    "micro_batch: 1\n"
    "micro_batches: 1\n"
    "model: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128,\n"
    "        ffn_hidden: 14336, vocab: 128256, sequence: 8192, tied_embeddings: false}\n"
    "fsdp: {version: 2, units: [blocks, root], reshard_after_forward: true, param_dtype: bf16,\n"
    "       reduce_dtype: bf16}\n";

/// One micro-batch of one sequence on `ranks` expert or context ranks.
Overrides one_sequence(std::int64_t sequence, Recompute recompute) {
  Overrides overrides;
  overrides.seq = sequence;
  overrides.micro_batch = 1;
  overrides.micro_batches = 1;
  overrides.recompute = recompute;
  return overrides;
}

Asked expert_job(const char* model, const char* framework, std::int64_t ep, Recompute recompute) {
  Asked asked{model, framework, one_sequence(4096, recompute)};
  asked.overrides.dp = ep;
  asked.overrides.ep = ep;
  return asked;
}

Contender megatron_experts(const char* name, const char* dispatcher, std::int64_t ep) {
  Overrides overrides;
  overrides.ranks = ep;
  return {name,
          {fmt::format("mixtral-{}-ep-{}.args", std::string_view(name).substr(14), ep), "megatron@0.19.2",
           overrides,
           fmt::format("{}--moe-token-dispatcher-type {}\n--global-batch-size {} "
                       "--expert-model-parallel-size {}\n",
                       k_mixtral_arguments, dispatcher, ep, ep)},
          0,
          {Axis::ep}};
}

FormContest mixtral_contest(std::int64_t ep) {
  const ExpertLayers layers{.layers = 32, .tokens = 4096, .top_k = 2, .hidden = 4096, .ep = ep};
  ExpertLayers again = layers;
  again.exchanges = 6;
  ExpertLayers capacity = layers;
  capacity.capacity = 1.25;
  FormContest contest{"a", "Mixtral 8x7B", fmt::format("ep = {}", ep), {expert_exchanges(layers)}, {}};
  contest.forms.push_back(expert_exchanges(again));
  contest.forms.back().name = "recomputed";
  contest.forms.push_back(expert_exchanges(capacity));
  contest.forms.back().name = "capacity 1.25";
  contest.contenders.push_back(megatron_experts("Megatron 0.19 alltoall", "alltoall", ep));
  contest.contenders.push_back(
      megatron_experts("Megatron 0.19 capacity",
                       "alltoall --moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity", ep));
  contest.contenders.back().form = 2;
  contest.contenders.push_back(megatron_experts("Megatron 0.19 allgather", "allgather", ep));
  contest.contenders.back().why =
      "The allgather dispatcher gathers the tokens of all expert ranks, whoever needs them, and scatters the "
      "sums: 4 L n h (ep-1), which is less than dispatch where ep is below k.";
  contest.contenders.push_back(
      {"torchtitan 0.3.0", expert_job("mixtral-8x7b", "torchtitan", ep, Recompute::none), 0, {Axis::ep}});
  contest.contenders.push_back({"torchtitan 0.3.0, selective recomputation",
                                expert_job("mixtral-8x7b", "torchtitan", ep, Recompute::selective),
                                1,
                                {Axis::ep}});
  return contest;
}

FormContest deepseek_contest(std::int64_t ep) {
  // 58 of 61 layers have experts.
  const ExpertLayers layers{.layers = 58, .tokens = 4096, .top_k = 8, .hidden = 7168, .ep = ep};
  return {
      "b",
      "DeepSeek-V3",
      fmt::format("ep = {}", ep),
      {expert_exchanges(layers)},
      {{"torchtitan 0.3.0", expert_job("deepseek-v3", "torchtitan", ep, Recompute::none), 0, {Axis::ep}}}};
}

std::string node_note() {
  constexpr std::int64_t experts = 256;
  constexpr std::int64_t top_k = 8;
  std::string text = "One copy of a token for each node that has one of its experts, as DeepEP sends it:";
  for (const std::int64_t nodes : {2, 4, 8, 16}) {
    text += fmt::format(" {:.2f} copies over {} nodes,", expected_nodes(experts, nodes, top_k), nodes);
  }
  return text +
         " where all-to-all sends 8 (DeepSeek-V3, routing without groups): N (1 - C(E - E/N, k) / C(E, k)).";
}

}  // namespace

ItemResult expert_parallelism(Study& study) {
  FormSheet sheet;
  for (const std::int64_t ep : {2, 4, 8}) {
    sheet.add(study, mixtral_contest(ep));
  }
  for (const std::int64_t ep : {8, 64}) {
    sheet.add(study, deepseek_contest(ep));
  }
  Item item =
      item_of(sheet, "ep",
              "Expert parallelism, which the paper leaves to future work: what rank 0 sends in the "
              "group of its expert ranks in an iteration of one micro-batch of 4,096 tokens a rank, "
              "by the closed form and by the rules of today's frameworks; a row that departs names "
              "its rule.",
              {{"a", "Mixtral 8x7B: 8 experts, 2 a token"}, {"b", "DeepSeek-V3: 256 experts, 8 a token"}});
  item.whole.notes.push_back(node_note());
  item.whole.notes.emplace_back(
      "Without a capacity, sizes are those of balanced routing. An imbalance of f makes the rank with the "
      "most tokens receive f times as much, and all wait for it; with a capacity C each rank sends C times "
      "the balanced tokens whatever the routing, and tokens above it are dropped.");
  return item;
}

namespace {

Contender megatron_context(const char* kind, std::int64_t cp, std::size_t form) {
  Overrides overrides;
  overrides.ranks = cp;
  return {fmt::format("Megatron 0.19, {}", kind),
          {fmt::format("llama3-8b-{}-cp-{}.args", kind, cp), "megatron@0.19.2", overrides,
           fmt::format("{}--context-parallel-size {} --cp-comm-type {}\n", k_llama_arguments, cp, kind)},
          form,
          {Axis::cp}};
}

Contender torch_context(const char* name, const char* method, std::int64_t cp, std::size_t form) {
  return {
      name,
      {fmt::format("llama3-8b-torch-{}-cp-{}.yaml", method, cp),
       "",
       {},
       fmt::format("{}ranks: {}\nlayout: {{data_shard: 1, context: {}}}\ncontext_parallel: {{method: {}}}\n",
                   k_llama_case, cp, cp, method)},
      form,
      {Axis::cp},
      "PyTorch repeats keys and values for all 32 heads before it sends them, four times those of "
      "8 key heads, and returns their gradients in fp32."};
}

Asked context_job(const char* framework, std::int64_t cp) {
  Asked asked{"llama3-8b", framework, one_sequence(8192, Recompute::none)};
  asked.overrides.dp = 1;
  asked.overrides.cp = cp;
  return asked;
}

FormContest context_contest(std::int64_t cp) {
  const ContextLayers layers{.layers = 32, .sequence = 8192, .hidden = 4096, .kv_hidden = 1024, .cp = cp};
  const std::string setting = fmt::format("cp = {}", cp);
  FormContest contest{"a",
                      "Llama-3 8B",
                      setting,
                      {context_ring(layers), context_gather(layers, false), context_gather(layers, true),
                       context_ulysses(layers)},
                      {}};
  contest.contenders = {
      megatron_context("p2p", cp, 0),
      torch_context("PyTorch 2.15, all-to-all ring", "ring_all_to_all", cp, 0),
      {"torchtitan 0.3.0", context_job("torchtitan", cp), 1, {Axis::cp}},
      megatron_context("all_gather", cp, 2),
      torch_context("PyTorch 2.15, all-gather", "ring_all_gather", cp, 2),
      megatron_context("a2a", cp, 3),
      {"DeepSpeed 0.19.8, Ulysses", context_job("deepspeed@0.19.8", cp), 3, {Axis::sp, Axis::cp}}};
  return contest;
}

}  // namespace

ItemResult context_parallelism(Study& study) {
  FormSheet sheet;
  for (const std::int64_t cp : {2, 4, 8}) {
    FormContest contest = context_contest(cp);
    contest.panel = cp == 2 ? "a" : cp == 4 ? "b" : "c";
    sheet.add(study, contest);
  }
  return item_of(sheet, "cp",
                 "Context parallelism: what rank 0 sends in the group of its context ranks in an iteration "
                 "of one sequence of 8,192 tokens of Llama-3 8B (32 heads, 8 of keys and values), by the "
                 "closed forms and by the rules of today's frameworks; a row that departs names its rule.",
                 {{"a", "Two context ranks"}, {"b", "Four context ranks"}, {"c", "Eight context ranks"}});
}

namespace {

constexpr Elements k_llama_parameters{8'030'261'248};

FormContest hybrid_contest(std::int64_t replicas, bool is_between) {
  constexpr std::int64_t shards = 8;
  const std::string name = fmt::format("llama3-8b-hsdp-{}.yaml", replicas);
  Asked asked{name,
              "",
              {},
              fmt::format("{}ranks: {}\nlayout: {{data_replicate: {}, data_shard: {}}}\n", k_llama_case,
                          replicas * shards, replicas, shards)};
  return {"a",
          "Llama-3 8B",
          fmt::format("g = {}, r = {}", shards, replicas),
          {is_between ? hybrid_between(k_llama_parameters, shards, replicas)
                      : hybrid_inside(k_llama_parameters, shards)},
          {{fmt::format("PyTorch 2.15 fully_shard, {}", is_between ? "between replicas" : "inside a group"),
            asked,
            0,
            {is_between ? Axis::dp_replicate : Axis::dp_shard},
            "Parameters are padded to shards of equal rows."}}};
}

}  // namespace

ItemResult hybrid_sharding(Study& study) {
  FormSheet forms;
  for (const std::int64_t replicas : {2, 4}) {
    forms.add(study, hybrid_contest(replicas, false));
    forms.add(study, hybrid_contest(replicas, true));
  }
  return item_of(forms, "hsdp",
                 "Hybrid sharding: what rank 0 sends in an iteration inside a group of eight shards and "
                 "between replicas of it, Llama-3 8B in bf16, by the closed form and by PyTorch's rules.",
                 {{"a", "Llama-3 8B"}});
}

namespace {

/// Bytes of rank 0 on 16 ranks of nodes of eight.
void add_quantised(Sheet& sheet, Study& study, const char* framework, const char* name, bool is_split,
                   bool is_quantised) {
  Asked asked{"13B", framework, {}};
  asked.overrides.ranks = 16;
  asked.overrides.zero = 3;
  if (is_split) {
    asked.overrides.hpz = 8;
  }
  asked.overrides.qwz = is_quantised;
  asked.overrides.qgz = is_quantised;
  const Result<Plan> plan = study.plan(asked);
  if (!plan) {
    return;
  }
  Bytes wire;
  Bytes between;
  const Trace trace = plan->trace_of({plan->steady_iteration()});
  for (const BreakdownRow& row : breakdown(trace, {.rank = Rank{0}, .ranks_per_node = 8, .by_rule = false})) {
    wire += row.wire_per_rank;
    between += row.wire_inter_node;
  }
  const char* const setting = is_quantised ? "ZeRO++" : is_split ? "ZeRO-3 with hpZ" : "ZeRO-3";
  Series series{name, Evidence::exact,
                fmt::format("every call by the rules of {}: `{} --gpus-per-node 8`",
                            plan->tables.provenance.framework, asked.command())};
  series.unmeasured = plan->unverified;
  sheet.add({"13B", setting, name, between, wire}, series);
}

}  // namespace

ItemResult quantised_zero(Study& study) {
  Sheet sheet({"model", "setting", "framework", "wire_inter_node_bytes_per_rank", "wire_bytes_per_rank"});
  for (const auto& [framework, name] : {std::pair("deepspeed@0.14.0", "DeepSpeed 0.14.0"),
                                        {"deepspeed@0.19.8", "DeepSpeed 0.19.8"},
                                        {"commlens", "commlens"}}) {
    add_quantised(sheet, study, framework, name, false, false);
    add_quantised(sheet, study, framework, name, true, false);
    add_quantised(sheet, study, framework, name, true, true);
  }
  Item item{
      whole_of(sheet,
               "ZeRO++ of 13B on two nodes of eight ranks, which the paper names and does not run: what "
               "rank 0 sends in an iteration, and what of it leaves the node.",
               {FigureKind::bars,
                bar_options("setting", "framework", false,
                            {"wire_inter_node_bytes_per_rank", "wire_bytes_per_rank"}),
                {"model", "series", "evidence", "provenance"}}),
      {}};
  item.whole.notes.emplace_back(
      "ZeRO++ counts 0.75 P between nodes where ZeRO-3 has 3 P (arXiv 2306.10209): 0.5 for parameters in "
      "int8, nothing backward, 0.25 for gradients in int4. Scales of quantised blocks and tensors that are "
      "not quantised come on top.");
  return item;
}

}  // namespace commlens::study
