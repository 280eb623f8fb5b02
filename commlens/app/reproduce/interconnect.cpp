// What calls of the models' own sizes take between threads of this machine.
#include "commlens/app/reproduce/interconnect.hpp"

#include <fmt/format.h>

#include "commlens/app/bench.hpp"
#include "commlens/app/reproduce/items.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_timed_model = "19M";

MessageBench data_bench(const char* panel, int zero, std::int64_t ranks) {
  MessageBench bench{panel, fmt::format("{} on {} ranks", scheme_text(zero), ranks), k_deepspeed, {}};
  bench.overrides.dp = ranks;
  bench.overrides.zero = zero;
  return bench;
}

MessageBench model_bench(const char* panel, std::int64_t tp, std::int64_t pp) {
  MessageBench bench{panel, tp > 1 ? "Two tensor ranks" : "Two pipeline stages", k_neox, {}};
  bench.overrides.dp = 1;
  bench.overrides.tp = tp;
  bench.overrides.pp = pp;
  return bench;
}

/// A row of the models' gradients, 134 MiB, takes a tenth of a second a sample: `data_time` is enough for the
/// 30 that an interval needs.
std::vector<MessageBench> benches(std::int64_t data_ranks, std::chrono::milliseconds data_time,
                                  std::chrono::milliseconds time) {
  std::vector<MessageBench> all = {data_bench("a", 1, data_ranks), data_bench("b", 3, data_ranks),
                                   model_bench("c", 2, 1), model_bench("d", 1, 2)};
  for (MessageBench& bench : all) {
    const bool is_data = bench.overrides.zero.has_value();
    constexpr double long_rows = 6;  // as much as all rows take together
    bench.time = is_data ? data_time : time;
    bench.expected_s = 1 + long_rows * std::chrono::duration<double>(bench.time).count();
  }
  return all;
}

std::string flags_text(const bench::RowStats& stats) {
  std::string text;
  for (const bench::RowFlag flag : stats.flags) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(flag));
  }
  return text;
}

Cell nanoseconds_of(const std::optional<double>& seconds) {
  constexpr double ns_per_s = 1e9;
  return seconds ? Cell(static_cast<std::int64_t>(*seconds * ns_per_s)) : Cell();
}

void add_measured(Sheet& sheet, const MeasuredMessages& messages) {
  const Series series{fmt::format("threads of this machine, {}", messages.title), Evidence::recorded_here,
                      fmt::format("`{}`", messages.command)};
  for (const BenchRow& row : combined_rows(messages.run)) {
    const std::optional<double> bandwidth = row.bus_bandwidth();
    sheet.add(
        {messages.panel, k_timed_model, messages.title,
         fmt::format("{}, {}", row.key.op, to_text(Bytes{row.key.bytes})), row.key.op, row.key.group,
         row.key.bytes, row.calls ? Cell(*row.calls) : Cell(), row.stats.samples,
         nanoseconds_of(row.stats.p50_s), nanoseconds_of(row.stats.low_s), nanoseconds_of(row.stats.high_s),
         bandwidth ? Cell(*bandwidth) : Cell(), flags_text(row.stats)},
        series);
  }
}

}  // namespace

std::vector<MessageBench> quick_benches() {
  return benches(2, std::chrono::milliseconds(2500), std::chrono::milliseconds(200));
}
std::vector<MessageBench> full_benches() {
  return benches(4, std::chrono::seconds(20), std::chrono::seconds(3));
}

std::string command_of(const MessageBench& bench) {
  const Overrides& flags = bench.overrides;
  std::string text =
      fmt::format("commlens bench --messages {} --framework {}", k_timed_model, bench.framework);
  text += fmt::format(" --dp {}", flags.dp.value_or(1));
  text += flags.tp.value_or(1) > 1 ? fmt::format(" --tp {}", *flags.tp) : "";
  text += flags.pp.value_or(1) > 1 ? fmt::format(" --pp {}", *flags.pp) : "";
  text += flags.zero ? fmt::format(" --zero {}", *flags.zero) : "";
  return text + fmt::format(" --time {}ms", bench.time.count());
}

Result<MeasuredMessages> measured(const MessageBench& bench, const std::function<bool()>& stop_requested) {
  BenchRequest request;
  request.messages = {k_timed_model};
  request.framework = bench.framework;
  request.overrides = bench.overrides;
  request.time = bench.time;
  request.stop_requested = stop_requested;
  return bench_calls(request).and_then([&](BenchResult&& result) -> Result<MeasuredMessages> {
    if (combined_rows(result.run).empty()) {
      return failure("stopped");
    }
    return MeasuredMessages{bench.panel, bench.title, command_of(bench), std::move(result.run)};
  });
}

ItemResult interconnect(Study& study) {
  if (study.measured_messages().empty()) {
    return no_figure("calls were not timed: that takes a run without --no-train");
  }
  Sheet sheet({"panel", "model", "setting", "bar", "op", "axis", "message_bytes", "calls_per_rank", "samples",
               "p50_ns", "p50_low_ns", "p50_high_ns", "bus_bandwidth_bytes_per_s", "sample_flags"});
  for (const MeasuredMessages& messages : study.measured_messages()) {
    add_measured(sheet, messages);
  }
  const Drawing drawing{FigureKind::bars,
                        bar_options("bar", "op", false, {"p50_ns", "bus_bandwidth_bytes_per_s"}),
                        {"panel", "model", "setting", "series", "evidence", "provenance"}};
  Item item{whole_of(sheet,
                     "What the calls of an iteration of 19M take at their own sizes, between threads of this "
                     "machine: the median with its 95 % interval, and the bus bandwidth as nccl-tests has "
                     "it. Sizes and calls are those that DeepSpeed 0.14.0 and GPT-NeoX send; buffers have "
                     "left the caches.",
                     drawing),
            {}};
  for (const MeasuredMessages& messages : study.measured_messages()) {
    item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", messages.panel),
                                   "interconnect-" + messages.panel, messages.title, "", drawing));
  }
  item.whole.notes.emplace_back(
      "Threads move data through memory: these are no times of a network. The paper's interconnect "
      "benchmarks of Frontier are not public as numbers; commlens bench times calls over MPI as well.");
  return item;
}

}  // namespace commlens::study
