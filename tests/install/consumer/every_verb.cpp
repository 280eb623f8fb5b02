// Calls every function of the library once, from a program that is no part of commlens.
//   every_verb WORK_DIRECTORY [train]   trains too, where the engine module is installed
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include <commlens/app/advise.hpp>
#include <commlens/app/bench.hpp>
#include <commlens/app/calibrate.hpp>
#include <commlens/app/compare.hpp>
#include <commlens/app/cost.hpp>
#include <commlens/app/doctor.hpp>
#include <commlens/app/export_trace.hpp>
#include <commlens/app/hang.hpp>
#include <commlens/app/import_files.hpp>
#include <commlens/app/machines.hpp>
#include <commlens/app/predict.hpp>
#include <commlens/app/record.hpp>
#include <commlens/app/replay.hpp>
#include <commlens/app/report.hpp>
#include <commlens/app/reproduce.hpp>
#include <commlens/app/search_layouts.hpp>
#include <commlens/app/simulate.hpp>
#include <commlens/app/summarise.hpp>
#include <commlens/app/summary_text.hpp>
#include <commlens/app/train.hpp>
#include <commlens/app/tune.hpp>
#include <commlens/app/version.hpp>
#include <commlens/app/watch.hpp>

namespace {

void expect(bool is_so, const std::string& what) {
  if (!is_so) {
    std::cerr << "every_verb: not so: " << what << '\n';
    std::exit(1);
  }
}

template <typename Value>
Value value_of(commlens::Result<Value> result, const std::string& verb) {
  expect(result.has_value(), verb + ": " + (result ? "" : result.error().message));
  return std::move(*result);
}

/// Two ranks of a small model.
commlens::PredictRequest small_job() {
  commlens::PredictRequest request;
  request.config = {"19M"};
  request.framework = "deepspeed";
  request.overrides.ranks = 2;
  request.overrides.zero = 3;
  request.overrides.layers = 2;
  request.overrides.iterations = 2;
  return request;
}

void write_log(const std::string& file) {
  const commlens::Plan plan = value_of(plan_of(small_job()), "plan_of");
  std::ofstream out(file);
  std::int64_t steps = 0;
  commlens::Events events;
  events.progress = [&](const commlens::ProgressReport& report) { steps = report.done; };
  const auto written = write_calls(plan, std::nullopt, [&](std::string_view block) { out << block; }, events);
  expect(written.has_value() && steps > 100, "write_calls writes and says how far it is");
}

void read_trace(const std::string& work) {
  const std::string trace = work + "/trace";
  const auto imported =
      value_of(commlens::import_files({{work + "/calls.jsonl"}, trace, {}}), "import_files");
  expect(imported.ranks == 2 && imported.calls > 100, "both ranks are imported");
  commlens::SummaryRequest request;
  request.trace = trace;
  const auto subject = value_of(commlens::summarise(request), "summarise");
  expect(subject.summary.calls == imported.calls, "summarise counts what was imported");
  const commlens::SummaryView view{subject, "trace", subject.options, {}};
  expect(rendered(view, commlens::Format::json).find("\"commlens.summary/") != std::string::npos,
         "JSON has its schema");
  commlens::HangRequest stuck;
  stuck.inputs = {trace};
  expect(!commlens::hang(stuck).has_value(), "hang refuses a trace that is no recording");
  commlens::WatchRequest followed;
  followed.directory = trace;
  followed.is_single = true;
  expect(!commlens::watch(followed).has_value(), "watch refuses a trace that is no recording");

  commlens::ExportRequest csv;
  csv.input = {trace};
  csv.format = "csv";
  std::string text;
  csv.sink = [&](std::string_view block) { text += block; };
  expect(commlens::export_trace(csv).has_value() && text.starts_with("rank,"),
         "export_trace writes to a sink");
}

void compare_and_report(const std::string& work) {
  const commlens::PredictRequest job = small_job();
  commlens::CompareRequest request;
  request.a = "19M";
  request.b = work + "/trace";
  request.framework = "deepspeed";
  request.overrides = job.overrides;
  const auto same = value_of(compare(request), "compare");
  expect(same.equal(), "a prediction equals its own calls");
  request.overrides.zero = 1;
  const auto other = value_of(compare(request), "compare");
  expect(!other.equal(), "ZeRO-1 sends other calls than ZeRO-3");

  commlens::ReportRequest page;
  page.arguments = {work + "/trace"};
  const auto report = value_of(commlens::report(page), "report");
  expect(report.shown() > 3 && report.html.size() > 10'000, "report makes figures");
  commlens::AdviseRequest advice;
  advice.config = job.config;
  advice.framework = job.framework;
  advice.overrides = job.overrides;
  const auto advised = value_of(commlens::advise(advice), "advise");
  expect(!rendered(advised, commlens::Format::table).empty(), "advise says something");
}

void sweep_sizes() {
  commlens::SweepRequest request;
  request.config = {"1.3B"};
  request.frameworks = {"deepspeed", "paper"};
  request.combinations =
      value_of(commlens::combinations_of({{"--ranks", "8,16"}, {"--zero", "3"}}), "combinations");
  expect(value_of(sweep(request), "sweep").rows.size() == 4, "two frameworks on two sizes are four rows");
}

void reproduce_paper(const std::string& work) {
  commlens::ReproduceRequest request;
  request.directory = work + "/paper";
  request.effort = commlens::ReproduceRequest::Effort::none;
  const auto paper = value_of(commlens::reproduce(request), "reproduce");
  expect(paper.figures >= 25 && paper.takeaways.rows().size() > 8, "all figures of the paper are made");
}

void tune_messages() {
  commlens::TuneRequest request;
  request.messages.input = {"19M"};
  request.messages.framework = "deepspeed";
  request.messages.overrides = small_job().overrides;
  request.messages.overrides.hidden = 32;
  request.messages.overrides.heads = 4;
  request.messages.overrides.iterations = std::nullopt;
  request.most_rounds = 60;
  request.time = std::chrono::milliseconds(5);
  const auto tuned = value_of(commlens::tune_calls(request), "tune_calls");
  expect(!tuned.tuned.messages.empty() && !rendered(tuned, commlens::Format::csv).empty(),
         "messages are timed");
}

void time_collectives(const std::string& work) {
  const auto list = value_of(commlens::list_machines(), "list_machines");
  expect(list.machines.size() > 10, "machines are built in");
  commlens::CostRequest request;
  request.machine = "dgx_h100";
  request.ranks = 8;
  request.bytes = {1 << 20};
  const auto times = value_of(commlens::cost(request), "cost");
  expect(times.rows.size() == 1 && times.rows.front().time.us > 0, "a call has a time");
  commlens::SimulateRequest job;
  job.config = {"1.3B"};
  job.framework = "deepspeed";
  job.overrides.ranks = 16;
  job.machine = "dgx_h100";
  const auto simulated = value_of(commlens::simulate(job), "simulate");
  expect(simulated.simulation.seconds.low > 0, "an iteration takes time");
  commlens::SearchRequest search;
  search.config = {"1.3B"};
  search.machine = "dgx_h100";
  search.ranks = 8;
  search.global_batch = 64;
  expect(value_of(commlens::search_layouts(search), "search").answer.ranking.fitting > 0, "layouts fit");
  const std::string sweep = work + "/sweep.csv";
  std::ofstream(sweep)
      << "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
         "x,2.27.3,x,all_gather,NCCL,half,8,256,0.011\n"
         "x,2.27.3,x,all_gather,NCCL,half,8,512,0.012\n"
         "x,2.27.3,x,all_gather,NCCL,half,8,1024,0.013\n";
  commlens::CalibrateRequest fit;
  fit.files = {sweep};
  fit.machine = "dgx_a100";
  expect(value_of(commlens::calibrate(fit), "calibrate").fitted.size() == 1, "a sweep is fitted");
}

void time_calls() {
  commlens::BenchRequest request;
  request.ops = {"all_reduce"};
  request.sizes = "8,1K";
  request.time = std::chrono::milliseconds(10);
  request.verifies = true;
  const auto result = value_of(commlens::bench_calls(request), "bench_calls");
  expect(combined_rows(result.run).size() == 2 && result.wrong_elements() == 0,
         "both sizes are timed, and right");
  expect(osu_text(result).find("osu_allreduce") != std::string::npos, "as the OSU benchmarks print");
  expect(nccl_tests_text(result).find("all_reduce_perf") != std::string::npos, "as nccl-tests prints");
  expect(sweep_csv(result).find(",all_reduce,2,1,2,fp32,1024,") != std::string::npos,
         "a table for calibrate");
  expect(rendered(result, commlens::Format::json).find("\"commlens.bench/1\"") != std::string::npos,
         "JSON has its schema");
}

void replay_calls(const std::string& work) {
  commlens::ReplayRequest request;
  request.trace = work + "/trace";
  request.output = work + "/replayed";
  const auto again = value_of(commlens::replay(request), "replay");
  expect(again.all_equal() && again.compared > 100, "a replay makes the calls of its trace");
  expect(!rendered(again, commlens::Format::csv).empty(), "replay says what they took");
}

void record_nothing(const std::string& work) {
  std::string warned;
  commlens::RecordRequest request;
  request.command = {"true"};
  request.directory = work + "/recorded";
  request.mpi = "openmpi";
  request.events.warning = [&](const std::string& warning) { warned = warning; };
  const auto recorded = commlens::record(request);
  if (recorded) {
    expect(recorded->exit_code == 0 && recorded->jobs.empty(), "a program without MPI has no trace");
    expect(warned.find("nothing was recorded") != std::string::npos, "record warns of that");
  } else {
    std::cout << "record: " << recorded.error().message << '\n';
  }
}

void train_small(const std::string& work) {
  commlens::TrainRequest request;
  request.config = {"19M"};
  const auto overrides = commlens::overrides_of({{"--ranks", "2"},
                                                 {"--layers", "1"},
                                                 {"--hidden", "64"},
                                                 {"--heads", "2"},
                                                 {"--seq", "32"},
                                                 {"--vocab", "256"},
                                                 {"--micro-batch", "1"},
                                                 {"--dtype", "fp32"},
                                                 {"--zero", "2"}});
  request.overrides = value_of(overrides, "overrides_of");
  request.iterations = 2;
  request.trace = work + "/training";
  int heard = 0;
  request.train_events.iteration = [&](const commlens::engine::IterationReport&) { ++heard; };
  const auto trained = value_of(commlens::train(request), "train");
  expect(heard == 2 && trained.iterations.size() == 2, "each iteration is reported");
  expect(trained.check && trained.check->calls > 0 && trained.check->all_equal(),
         "the recording is as predicted");
}

}  // namespace

int main(int count, char** arguments) {
  expect(count >= 2, "a work directory is given");
  const std::string work = arguments[1];
  write_log(work + "/calls.jsonl");
  read_trace(work);
  compare_and_report(work);
  sweep_sizes();
  reproduce_paper(work);
  tune_messages();
  time_collectives(work);
  time_calls();
  replay_calls(work);
  record_nothing(work);
  if (count > 2) {
    train_small(work);
  }
  expect(!commlens::predict({}).has_value(), "nothing is no configuration");
  std::cout << "commlens " << commlens::k_version << '\n';
  for (const commlens::Finding& finding : commlens::examine_machine()) {
    std::cout << (finding.is_possible ? "yes  " : "no   ") << finding.subject << ": " << finding.detail
              << '\n';
  }
}
