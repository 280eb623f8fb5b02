// Every key that a verb writes is in docs/output.md, which has no other: each verb runs on small inputs, as
// JSON and CSV.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/trace/recorder.hpp"
#include "tests/cli/output_page.hpp"
#include "tests/cli/program.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Verbs = std::set<std::string>;
using test_support::documented_keys;
using test_support::DocumentedKey;
using test_support::source_file;
using test_support::split_at;

/// The name of a key on the page, where ops and flags are placeholders.
std::string named(const std::string& parent, const std::string& key) {
  if (parent == "flags") {
    return "FLAG";
  }
  if (comm_kind_from(key)) {
    return "OP";
  }
  for (const char* const rest : {"_message_bytes_per_rank", "_blocked_s_rank_0", "_calls_rank_0"}) {
    if (key.ends_with(rest) && comm_kind_from(key.substr(0, key.size() - std::string(rest).size()))) {
      return std::string("OP") + rest;
    }
  }
  return key;
}

/// The keys that were written, with the object around each, and by which verbs.
class Written {
 public:
  void add(const std::string& verb, const std::string& parent, const std::string& key) {
    keys_[{parent, named(parent, key)}].insert(verb);
  }
  void add_json(const std::string& verb, const Json& json, const std::string& parent = "") {
    if (json.is_array()) {
      for (const Json& item : json) {
        add_json(verb, item);
      }
    }
    if (!json.is_object()) {
      return;
    }
    for (const auto& [key, value] : json.items()) {
      add(verb, parent, key);
      // Options of the drawers, docs/report.md; numbers by reason.
      if (key != "options" && !key.ends_with("_whole_trace")) {
        add_json(verb, value, value.is_object() ? key : "");
      }
    }
  }
  void add_csv(const std::string& verb, const std::string& text, const Words& flags = {}) {
    for (const std::string& key : split_at(text.substr(0, text.find('\n')), ',')) {
      const bool is_flag = std::find(flags.begin(), flags.end(), key) != flags.end();
      add(verb, is_flag ? "flags" : "", key);
    }
  }
  const std::map<std::pair<std::string, std::string>, Verbs>& keys() const { return keys_; }

 private:
  std::map<std::pair<std::string, std::string>, Verbs> keys_;
};

class OutputKeys : public ::testing::Test {
 protected:
  /// Runs a verb in both formats.
  void write(Words arguments, const Words& flags = {}) {
    const std::string verb = arguments.front();
    for (const char* const format : {"json", "csv"}) {
      Words words = arguments;
      words.insert(words.end(), {"--format", format});
      const Answer answer = commlens_with(words);
      ASSERT_LE(answer.code, 1) << fmt::format("{}", fmt::join(words, " ")) << "\n" << answer.err;
      if (std::string_view(format) == "csv") {
        written_.add_csv(verb, answer.out, flags);
      } else {
        written_.add_json(verb, Json::parse(answer.out));
      }
    }
  }

  /// Two ranks, `iterations` iterations of collectives, messages, another call and computing; `step` ns
  /// between.
  std::string timed(const std::string& name, int iterations, int step) {
    std::string text;
    for (int rank = 0; rank < 2; ++rank) {
      for (int iteration = 0; iteration < iterations; ++iteration) {
        const int start = iteration * 100'000;
        const auto line = [&](const std::string& rest, int at) {
          text += fmt::format(R"({{"rank":{},"iteration":{},{},"start_ns":{},"duration_ns":{}}})"
                              "\n",
                              rank, iteration, rest, start + at, step + iteration);
        };
        line(R"("op":"compute")", 0);
        for (const int communicator : {1, 2}) {
          line(fmt::format(
                   R"("op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1],)"
                   R"("communicator":"{}","phase":"backward")",
                   communicator),
               communicator * 10'000 + rank * 100);
        }
        line(
            fmt::format(
                R"("op":"{}","dtype":"fp32","input_bytes":{},"output_bytes":{},"group":[0,1],"peer":{},"phase":"forward")",
                rank == 0 ? "send" : "recv", rank == 0 ? 64 : 0, rank == 0 ? 0 : 64, 1 - rank),
            40'000);
        line(R"("op":"other","name":"Gather","dtype":"uint8","input_bytes":8,"output_bytes":8,"group":[0,1])",
             50'000);
      }
    }
    return directory_.write(name, text);
  }

  void write_figures(const Words& inputs) {
    Words words = {"report", "-o", directory_.path("page.html"), "--data", directory_.path("figures")};
    words.insert(words.end(), inputs.begin(), inputs.end());
    const Answer answer = commlens_with(words);
    ASSERT_EQ(answer.code, 0) << answer.err;
    add_figures("report", directory_.path("figures"));
  }

  void add_figures(const std::string& verb, const std::string& figures) {
    for (const auto& entry : std::filesystem::directory_iterator(figures)) {
      if (entry.path().extension() == ".svg") {
        continue;  // a picture of the same rows
      }
      std::ifstream file(entry.path());
      std::ostringstream text;
      text << file.rdbuf();
      if (entry.path().extension() == ".csv") {
        written_.add_csv(verb, text.str());
      } else {
        written_.add_json(verb, Json::parse(text.str()));
      }
    }
  }

  void write_reproduction() {
    write({"reproduce", "--no-train", "-o", directory_.path("paper")});
    add_figures("reproduce", directory_.path("paper/figures"));
  }

  /// Figures of `reproduce` that --no-train leaves out: of calls that are timed, and of processes.
  void make_recorded_figures() {
    study::Study study;
    study::MessageBench bench = study::quick_benches().back();
    bench.time = std::chrono::milliseconds(1);
    Result<study::MeasuredMessages> messages = study::measured(bench, {});
    ASSERT_TRUE(messages) << messages.error().message;
    study.add(std::move(*messages));
    study.add(study::RecordedStages{"stages", "a network", "a command", stages_of_two_ranks()});
    for (const auto make : {study::interconnect, study::cold_receive}) {
      const study::ItemResult item = make(study);
      ASSERT_TRUE(item) << item.error().reason;
      for (const FigureColumn& column : item->whole.columns) {
        written_.add("reproduce", "", column.name);
      }
    }
  }

  static Trace stages_of_two_ranks() {
    Trace trace;
    const GroupId pair = trace.groups.intern({Rank{0}, Rank{1}}, Axis::pp);
    for (const CommKind kind : {CommKind::send, CommKind::recv}) {
      const Rank rank{kind == CommKind::send ? 0 : 1};
      const OpId op = trace.intern({.kind = kind, .group = pair});
      trace.streams.push_back({.ranks = {rank, rank}, .events = {{op, 0}}, .times = {Times{}}});
    }
    return trace;
  }

  /// What a verb writes as JSON, as a file.
  std::string result(const std::string& name, Words arguments) {
    const std::string file = directory_.path(name);
    arguments.insert(arguments.end(), {"--format", "json", "-o", file});
    EXPECT_EQ(commlens_with(arguments).code, 0) << name;
    return file;
  }

  void write_predictions() {
    write({"predict", "1.3B", "--ranks", "16", "--zero", "1", "--framework", "deepspeed", "--gpus-per-node",
           "8"});
    const std::string ordered = directory_.write("ordered.yaml", R"(framework: megatron
ranks: 8
model: {family: gpt, layers: 4, hidden: 64, heads: 4, sequence: 32, vocab: 256}
layout: {tensor: 2, pipeline: 2, order: tp-cp-ep-pp-dp}
micro_batch: 1
)");
    write({"predict", ordered});
    write({"predict", "19M", "--dp", "2", "--framework", "torch-fsdp"});
    write({"advise", "19M", "--dp", "2", "--framework", "torch-fsdp"});
    write({"predict", "19M", "--ranks", "8", "--framework", "deepspeed,paper", "--zero", "1,3", "--tp", "1,8",
           "--gpus-per-node", "4"},
          {"zero", "tp"});
    write({"advise", source_file("tests/golden/deepspeed/z3_S_w4_fp32_p200/case.yaml").string(),
           source_file("tests/golden/deepspeed/z3_S_w4_fp32_p200/calls.jsonl.gz").string()});
  }

  void write_comparisons() {
    const std::string golden = source_file("tests/golden/neox/p2/").string();
    write({"compare", golden + "case.yaml", golden + "calls.jsonl.gz", "--framework", "paper"});
    const std::string other = source_file("tests/golden/deepspeed/z1_S_w4_fp16_rb50000/").string();
    write({"compare", other + "case.yaml", other + "calls.jsonl.gz", "--bucket", "120000", "--order"});
    const std::string log = directory_.write(
        "run.log",
        R"(Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)
all_reduce
                    4.0 KB              3                   11.12               0.08                0.43                0.41
)");
    const std::string job = directory_.write("case.yaml", R"(framework: deepspeed
model: {family: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocab: 256}
deepspeed: {train_micro_batch_size_per_gpu: 1, zero_optimization: {stage: 1}}
)");
    write({"compare", job, log});
    const std::string torch = "tests/golden/torch/fsdp2_S_hsdp2x2";
    write({"compare", torch + "_factor1/case.yaml", torch + "/calls.jsonl.gz"});
    write({"compare", timed("a.jsonl", 12, 500), timed("b.jsonl", 12, 900), "--regression"});
    write(
        {"compare", timed("a.jsonl", 1, 500),
         directory_.write(
             "whole.jsonl",
             R"({"rank":0,"iteration":null,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1]}
)")});
    write({"compare", other + "calls.jsonl.gz", other + "case.yaml"});
    const auto routed = [&](const std::string& name, int bytes) {
      return directory_.write(
          name, fmt::format(R"({{"rank":0,"iteration":0,"op":"all_to_all","dtype":"fp32","input_bytes":{0},)"
                            R"("output_bytes":{0},"group":[0,1],"match":"count"}})"
                            "\n",
                            bytes));
    };
    write({"compare", routed("once.jsonl", 64), routed("twice.jsonl", 128)});
    write_figures({directory_.path("case.yaml"), log});
    write_figures({other + "case.yaml", other + "calls.jsonl.gz", "--bucket", "120000"});
  }

  void write_summaries() {
    const std::string trace = timed("timed.jsonl", 3, 500);
    write({"summary", trace, "--by", "phase,iteration", "--gpus-per-node", "1", "--link-bandwidth", "25"});
    write({"summary", trace, "--sizes"});
    write(
        {"summary",
         directory_.write(
             "sites.jsonl",
             R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp32","input_bytes":64,"output_bytes":64,"group":[0,1],"site":"a.py:1"}
)"),
         "--call-sites"});
    write({"summary", source_file("tests/golden/timing/pipeline.jsonl").string()});
    write({"summary", source_file("tests/golden/timing/missing_calls.jsonl").string()});
    write_figures({trace, "--gpus-per-node", "1"});
    write_figures({source_file("tests/golden/timing/pipeline.jsonl").string()});
  }

  void write_replay() {
    write({"replay", timed("played.jsonl", 2, 500), "--skip-other", "-o", directory_.path("again")});
  }

  void write_costs() {
    write({"machines"});
    const Words simulate = {"simulate",  "1.3B",      "--ranks",  "16",           "--framework",
                            "deepspeed", "--machine", "dgx_h100", "--contention", "flows"};
    write(simulate);
    write({"predict", "1.3B", "--ranks", "16", "--framework", "deepspeed", "--machine", "dgx_h100"});
    write({"cost", "all_reduce", "--machine", "dgx_h100", "--ranks", "8", "--bytes", "1MiB", "--explain"});
    const Words search = {"search", "mixtral-8x7b",   "--machine", "dgx_h100", "--gpus",
                          "32",     "--global-batch", "64",        "--retime", "2"};
    write(search);
    const Words scaling = {"search",         "13B", "--machine", "dgx_h100", "--gpus", "8",
                           "--global-batch", "8",   "--sweep",   "gpus"};
    write(scaling);
    write_figures(
        {result("found.json", search), result("scaling.json", scaling), result("simulated.json", simulate)});
    std::string sweep =
        "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n";
    for (int elements = 256; elements < 65'536; elements *= 2) {
      sweep += fmt::format("x,2.27.3,NVIDIA A100-SXM4-80GB,all_gather,NCCL,half,8,{},{}\n", elements,
                           .01 + elements * 1e-7);
    }
    write({"calibrate", directory_.write("sweep.csv", sweep), "-o", directory_.path("machine.json")});
    write({"calibrate",
           directory_.write("gemm.csv",
                            "m,n,k,dtype,microseconds\n4096,4096,4096,bf16,700\n4096,1024,4096,bf16,220\n"
                            "4096,4096,1024,bf16,200\n8192,4096,4096,bf16,1350\n"),
           "--machine", "dgx_a100", "-o", directory_.path("products.json")});
  }

  void write_measurements() {
    const std::string base = directory_.path("base.json");
    const Words bench = {"bench",   "all_reduce", "all_gather", "send",
                         "--sizes", "8,16",       "--time",     "1ms"};  // of three ops
    Words first = bench;
    first.insert(first.end(), {"--verify", "--json", base});
    ASSERT_EQ(commlens_with(first).code, 0);
    std::ifstream file(base);
    auto result = nlohmann::ordered_json::parse(file);
    result["launches"][0]["began_unix_ns"] = nullptr;  // copies are launches of any moment
    for (int copy = 0; copy < 7; ++copy) {
      result["launches"].push_back(nlohmann::ordered_json(result["launches"][0]));
    }
    directory_.write("base.json", result.dump());
    Words second = bench;
    second.insert(second.end(), {"--append", directory_.write("now.json", result.dump()), "--check", base});
    write(second);
    write_figures({base});
    write({"bench", "--messages", "19M", "--ranks", "2", "--layers", "1", "--hidden", "64", "--heads", "2",
           "--vocab", "256", "--framework", "deepspeed", "--time", "1ms"});
  }

  /// Dumps of two ranks that ask for different sizes in the same call.
  void write_hang() {
    const auto dump = [&](const std::string& name, int elements) {
      return directory_.write(
          name,
          fmt::format(R"({{"version": "2.4", "pg_config": {{"0": {{"name": "0", "ranks": "[0, 1]"}}}}, )"
                      R"("entries": [{{"profiling_name": "nccl:all_reduce", "process_group": ["0", ""], )"
                      R"("collective_seq_id": 4, "input_sizes": [[{0}]], "input_dtypes": ["Float"], )"
                      R"("output_sizes": [[{0}]], "output_dtypes": ["Float"], "time_created_ns": 5, )"
                      R"("state": "started"}}]}})",
                      elements));
    };
    write({"hang", dump("nccl_trace_rank_0", 8), dump("nccl_trace_rank_1", 9)});
  }

  /// Two iterations of a rank.
  std::string earlier_recording() {
    const std::string trace = directory_.path("earlier");
    create_recording(trace, {.producer = "test", .description = {}, .framework = {}, .ranks = 1});
    Recorder recorder(trace, Rank{0});
    for (const Iteration iteration : {0, 1}) {
      recorder.set_iteration(iteration);
      recorder.finish(recorder.begin({.group = recorder.group({Rank{0}}, Axis::dp), .tag = {}}));
    }
    return trace;
  }

  /// Two ranks of this process, one of which waits for the other: an alert, then the end.
  void write_watch() {
    const std::string trace = directory_.path("watched");
    create_recording(trace, {.producer = "test", .description = {}, .framework = {}, .ranks = 2});
    std::vector<std::unique_ptr<Recorder>> recorders;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Recorder& recorder = *recorders.emplace_back(std::make_unique<Recorder>(trace, Rank{rank}));
      const RecordedCall call = {.kind = CommKind::all_reduce,
                                 .group = recorder.group({Rank{0}, Rank{1}}, Axis::dp, CommunicatorId{1}),
                                 .blocking = true,
                                 .tag = {}};
      recorder.set_iteration(0);
      recorder.finish(recorder.begin(call));
      if (rank == 0) {
        recorder.set_iteration(1);
        recorder.skip("a reason");
        recorder.begin(call);
      }
    }
    RunningProgram watch(
        {commlens_binary(), "watch", trace, "--json", "--until-end", "--interval", "100ms", "--hang-after",
         "0", "--predict", "19M", "--framework", "commlens", "--baseline", earlier_recording()},
        {});
    watch.read_lines(4);  // two ranks that joined, the alert, the state
    recorders.clear();
    const Answer answer = watch.wait();
    ASSERT_EQ(answer.code, 1) << answer.err;
    std::istringstream lines(answer.out);
    for (std::string line; std::getline(lines, line);) {
      written_.add_json("watch", Json::parse(line));
    }
  }

  void write_tuning() {
    write({"tune",
           "--messages",
           "19M",
           "--layers",
           "2",
           "--hidden",
           "32",
           "--heads",
           "4",
           "--seq",
           "16",
           "--vocab",
           "256",
           "--dp",
           "2",
           "--zero",
           "1",
           "--rounds",
           "60",
           "--framework",
           "deepspeed",
           "--write-transports",
           directory_.path("table.csv")});
  }

  void write_training() {
    write({"train",         "19M",  "--layers",     "2",  "--hidden", "32",
           "--heads",       "4",    "--seq",        "16", "--vocab",  "256",
           "--dtype",       "fp32", "--ranks",      "2",  "--zero",   "1",
           "--micro-batch", "1",    "--iterations", "2",  "-o",       directory_.path("run")});
    write({"summary", directory_.path("run")});
    write_figures({directory_.path("run")});
  }

  /// The line of the page for a key: with the object around it, or for all objects.
  static std::string place_of(const std::map<std::string, DocumentedKey>& page, const std::string& parent,
                              const std::string& key) {
    const std::string grouped = parent + "." + key;
    return page.contains(grouped) ? grouped : key;
  }

  ScratchDirectory directory_;
  Written written_;
};

TEST_F(OutputKeys, AreAllOnThePageAndNoOthers) {
  write({"doctor"});
  write_costs();
  write_measurements();
  write_predictions();
  write_comparisons();
  write_summaries();
  write_reproduction();
  make_recorded_figures();
  write_hang();
  write_watch();
  write_tuning();
  write_replay();
  if (has_trainer()) {
    write_training();
  }
  std::map<std::string, DocumentedKey> page = documented_keys();
  ASSERT_FALSE(page.empty());
  std::map<std::string, Verbs> found;
  for (const auto& [place, verbs] : written_.keys()) {
    const std::string key = place_of(page, place.first, place.second);
    EXPECT_TRUE(page.contains(key)) << "docs/output.md lacks: " << place.first << "." << key << " of "
                                    << fmt::format("{}", fmt::join(verbs, ", "));
    found[key].insert(verbs.begin(), verbs.end());
  }
  if (!has_trainer()) {
    GTEST_SKIP() << "this build has no trainer, whose keys cannot be looked for";
  }
  for (const auto& [key, entry] : page) {
    EXPECT_EQ(fmt::format("{}", fmt::join(entry.verbs, ", ")), fmt::format("{}", fmt::join(found[key], ", ")))
        << "verbs that docs/output.md lists for `" << key << "`, and those that write it";
  }
}

}  // namespace
}  // namespace commlens
