// The paper's takeaways, each as a check with numbers.
#include "commlens/app/reproduce/takeaways.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/reproduce/cold_receive.hpp"
#include "commlens/app/reproduce/items.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

using Verdict = Takeaway::Verdict;

constexpr Bytes k_small_message{64 * 1024};
constexpr double k_hundred = 100;
constexpr std::int64_t k_study_ranks = 16;
constexpr double k_least_slowdown = 1.5;  // of a cold receive
constexpr const char* k_cold_claim = "the first receive of a pair is slow";
constexpr const char* k_cold_expected = "once sent, 1.5 times later ones or more where it makes a connection";

Verdict verdict_of(bool holds) { return holds ? Verdict::pass : Verdict::fail; }

/// Shares of the all_gathers below 64 KiB, by calls and by bytes.
struct SmallShare {
  double calls = 0;
  double bytes = 0;
  std::string text() const {
    return fmt::format("{:.1f} % of the calls, {:.2f} % of the bytes", k_hundred * calls, k_hundred * bytes);
  }
};

SmallShare small_share(const std::vector<BreakdownRow>& rows) {
  std::int64_t calls = 0;
  std::int64_t small_calls = 0;
  Bytes bytes;
  Bytes small_bytes;
  for (const BreakdownRow& row : rows) {
    if (row.kind == CommKind::all_gather) {
      const bool is_small = Bytes{row.message.value / row.group_size} < k_small_message;
      calls += row.calls;
      bytes += row.total_message;
      small_calls += is_small ? row.calls : 0;
      small_bytes += is_small ? row.total_message : Bytes{};
    }
  }
  const auto share = [](std::int64_t part, std::int64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
  };
  return {share(small_calls, calls), share(small_bytes.value, bytes.value)};
}

void add_small_messages(std::vector<Takeaway>& all, Study& study) {
  constexpr double least_calls = 0.3;
  constexpr double most_bytes = 0.01;
  const char* const claim = "many all_gathers of ZeRO-3 are small, few bytes are in them";
  const std::string expected = "above 30 % of the calls below 64 KiB, under 1 % of the bytes";
  for (const char* const model : {"1.3B", "13B"}) {
    if (const Result<Plan> plan = study.plan(model, k_deepspeed, {.dp = k_study_ranks, .zero = 3})) {
      const SmallShare share =
          small_share(breakdown(plan->trace_of({plan->steady_iteration()}), {.rank = Rank{0}}));
      all.push_back({fmt::format("small-messages-{}", model), claim, expected,
                     fmt::format("{}: {}", model, share.text()),
                     verdict_of(share.calls > least_calls && share.bytes < most_bytes), deepspeed_series()});
    }
  }
  const GoldenRun& run = golden_run("deepspeed/z3_N19_w4_fp32_default");
  std::vector<BreakdownRow> rows;
  for (const GoldenCalls& calls : run.calls) {
    if (calls.iteration == 2) {
      BreakdownRow& row = rows.emplace_back();
      row.kind = calls.op;
      row.group_size = calls.group_size;
      row.message = calls.message;
      row.calls = calls.calls;
      row.total_message = calls.message * calls.calls;
    }
  }
  const SmallShare share = small_share(rows);
  all.push_back({"small-messages-recorded", claim, expected, fmt::format("19M: {}", share.text()),
                 verdict_of(share.calls > least_calls && share.bytes < most_bytes), golden_series(run)});
}

Bytes wire_of(Study& study, const char* model, const char* framework, int zero, std::int64_t iteration) {
  const Result<Plan> plan = study.plan(model, framework, {.dp = k_study_ranks, .zero = zero});
  Bytes wire;
  if (plan) {
    const std::int64_t chosen = iteration < 0 ? plan->steady_iteration() : iteration;
    for (const OpTotal& total : totals_of(*plan, chosen, chosen)) {
      wire += total.wire;
    }
  }
  return wire;
}

double ratio_of(Bytes more, Bytes less) {
  return less.value == 0 ? 0 : static_cast<double>(more.value) / static_cast<double>(less.value);
}

Takeaway half_more(const std::string& id, double ratio, const std::string& of, const Series& series) {
  constexpr double expected = 1.5;
  constexpr double tolerance = 0.01;
  return {id,
          "ZeRO-3 sends 1.5 times what DDP sends",
          "1.50 times",
          fmt::format("{}: {:.3f} times", of, ratio),
          verdict_of(std::abs(ratio - expected) < tolerance),
          series};
}

void add_zero3(std::vector<Takeaway>& all, Study& study) {
  all.push_back(half_more(
      "zero-3-theory",
      ratio_of(wire_of(study, "1.3B", k_equations, 3, -1), wire_of(study, "1.3B", k_equations, 0, -1)),
      "Eq. 3 over Eq. 2", printed_series("Eqs 2 and 3")));
  all.push_back(
      half_more("zero-3-first",
                ratio_of(wire_of(study, "13B", k_deepspeed, 3, 0), wire_of(study, "13B", k_deepspeed, 0, -1)),
                "13B in the first iteration, over DDP", deepspeed_series()));
  all.push_back(half_more(
      "zero-3-13B",
      ratio_of(wire_of(study, "13B", k_deepspeed, 3, -1), wire_of(study, "13B", k_deepspeed, 0, -1)),
      "13B, last layers stay gathered, over DDP", deepspeed_series()));
  all.push_back(half_more(
      "zero-3-19M",
      ratio_of(wire_of(study, "19M", k_deepspeed, 3, -1), wire_of(study, "19M", k_deepspeed, 0, -1)),
      "19M, which stays gathered, over DDP", deepspeed_series()));
  all.push_back(half_more(
      "zero-3-over-zero-1",
      ratio_of(wire_of(study, "13B", k_deepspeed, 3, -1), wire_of(study, "13B", k_deepspeed, 1, -1)),
      "13B, over a ZeRO-1 that all_reduces", deepspeed_series()));
  const Recording* const ddp = study.recording("zero-0");
  const Recording* const zero3 = study.recording("zero-3");
  if (ddp != nullptr && zero3 != nullptr) {
    Bytes less;
    Bytes more;
    for (const OpTotal& total : last_totals(*ddp)) {
      less += total.wire;
    }
    for (const OpTotal& total : last_totals(*zero3)) {
      more += total.wire;
    }
    all.push_back(half_more("zero-3-here", ratio_of(more, less), "over DDP", recorded_series(*zero3)));
  }
}

/// Message bytes of one op of rank 0 at each length.
std::vector<std::int64_t> by_length(Study& study, const char* framework, Degrees degrees, CommKind op) {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t sequence : {512, 1024, 2048, 4096}) {
    degrees.sequence = sequence;
    const Result<Plan> plan = study.plan("1.3B", framework, degrees);
    bytes.push_back(plan ? total_of(steady_totals(*plan), op).message.value : 0);
  }
  return bytes;
}

std::vector<double> growth_of(const std::vector<std::int64_t>& bytes) {
  std::vector<double> growth;
  for (std::size_t at = 1; at < bytes.size(); ++at) {
    growth.push_back(
        bytes[at - 1] == 0 ? 0 : static_cast<double>(bytes[at]) / static_cast<double>(bytes[at - 1]));
  }
  return growth;
}

void add_lengths_of(std::vector<Takeaway>& all, Study& study) {
  for (const int zero : {1, 3}) {
    const std::vector<std::int64_t> bytes =
        by_length(study, k_deepspeed, {.dp = k_study_ranks, .zero = zero}, CommKind::all_gather);
    all.push_back(
        {fmt::format("sequence-zero-{}", zero), "gathers of parameters do not depend on the sequence",
         "equal for s = 512 to 4,096",
         fmt::format("{}: {} bytes at each", scheme_text(zero), with_commas(bytes.front())),
         verdict_of(std::ranges::all_of(bytes, [&](std::int64_t one) { return one == bytes.front(); })),
         deepspeed_series()});
  }
  constexpr double tolerance = 1e-9;
  const std::vector<double> received =
      growth_of(by_length(study, k_neox, {.dp = 8, .pp = 2}, CommKind::recv));
  all.push_back(
      {"receive", "receives double with the sequence", "2.000 times",
       fmt::format("{:.3f} times", fmt::join(received, ", ")),
       verdict_of(std::ranges::all_of(received, [](double one) { return std::abs(one - 2) < tolerance; })),
       neox_series()});
  const std::vector<double> sent = growth_of(by_length(study, k_neox, {.dp = 8, .pp = 2}, CommKind::send));
  all.push_back({"send", "sends grow a little more than that", "above 2 times",
                 fmt::format("{:.3f} times", fmt::join(sent, ", ")),
                 verdict_of(std::ranges::all_of(sent, [](double one) { return one > 2 + tolerance; })),
                 neox_series()});
}

/// Two tensor ranks against two stages: how much faster they are.
Takeaway tensor_takeaway(const std::string& id, const std::string& of, const Range& ratio,
                         const Series& series) {
  constexpr double most = 2.2;
  Takeaway takeaway{id,
                    "two tensor ranks are faster than two pipeline stages",
                    "more than 1 and at most 2.2 times",
                    fmt::format("{}: {:.2f} times, {:.2f} to {:.2f}", of, ratio.value, ratio.low, ratio.high),
                    decided(ratio, std::nextafter(1.0, most), most),
                    series};
  if (takeaway.verdict == Verdict::open) {
    takeaway.why = series.evidence == Evidence::simulated
                       ? "the 90 % intervals of both simulated times leave it open"
                       : "iterations of both differ by more";
  }
  return takeaway;
}

void add_throughput_of(std::vector<Takeaway>& all, Study& study) {
  const Degrees tensor{.dp = 8, .tp = 2, .sequence = 2048};
  const Degrees stages{.dp = 8, .pp = 2, .sequence = 2048};
  const Result<SimulatedJob>& split = study.simulation("1.3B", k_neox, tensor);
  const Result<SimulatedJob>& piped = study.simulation("1.3B", k_neox, stages);
  if (split && piped) {
    const Estimate& fast = split->simulation.seconds;
    const Estimate& slow = piped->simulation.seconds;
    all.push_back(tensor_takeaway("tensor-throughput", "1.3B, s = 2,048",
                                  {slow.value / fast.value, slow.low / fast.high, slow.high / fast.low},
                                  simulated_series(*split)));
  }
  const Recording* const here_split = study.recording("length-2048-tp");
  const Recording* const here_piped = study.recording("length-2048-pp");
  if (here_split != nullptr && here_piped != nullptr) {
    const auto rate = [](const Recording& recording, double seconds) {
      return recording.flops_per_s * recording.seconds / seconds;
    };
    const Range ratio{here_split->flops_per_s / here_piped->flops_per_s,
                      rate(*here_split, here_split->slowest_s) / rate(*here_piped, here_piped->fastest_s),
                      rate(*here_split, here_split->fastest_s) / rate(*here_piped, here_piped->slowest_s)};
    all.push_back(tensor_takeaway("tensor-throughput-here", "like 19M, s = 2,048", ratio,
                                  recorded_series(*here_split)));
  }
}

void add_cold_receive(std::vector<Takeaway>& all, Study& study) {
  const std::vector<ColdStages> recorded = cold_stages(study);
  for (const ColdStages& stages : recorded) {
    all.push_back(cold_takeaway(stages));
  }
  if (recorded.empty()) {
    all.push_back(
        {"cold-receive",
         k_cold_claim,
         k_cold_expected,
         "no training was recorded",
         Verdict::open,
         {"commlens", Evidence::recorded_here, "nothing: --no-train leaves four pipeline stages out"},
         "four pipeline stages are trained without --no-train"});
  }
}

void add_recorded_calls(std::vector<Takeaway>& all, Study& study) {
  std::int64_t calls = 0;
  std::int64_t equal = 0;
  for (const Recording& recording : study.recordings()) {
    calls += recording.calls;
    equal += recording.equal_calls;
  }
  if (calls > 0) {
    all.push_back(
        {"prediction",
         "theory predicts what is sent",
         "every recorded call as predicted",
         fmt::format("{} of {} calls of {} trainings", with_commas(equal), with_commas(calls),
                     study.recordings().size()),
         verdict_of(calls == equal),
         {"commlens", Evidence::recorded_here, "every training of this page, by commlens' own rules"}});
  }
}

}  // namespace

std::string_view name_of(Takeaway::Verdict verdict) {
  return verdict == Verdict::pass ? "PASS" : verdict == Verdict::fail ? "FAIL" : "open";
}

Verdict decided(const Range& range, double least, double most) {
  if (range.low >= least && range.high <= most) {
    return Verdict::pass;
  }
  return range.high < least || range.low > most ? Verdict::fail : Verdict::open;
}

Takeaway cold_takeaway(const ColdStages& stages) {
  const ColdTimes times = cold_times(stages.pairs, CommKind::recv);
  Takeaway takeaway{fmt::format("cold-receive-{}", stages.id),
                    k_cold_claim,
                    k_cold_expected,
                    fmt::format("{}: {:.1f} times; once sent, {:.1f}", stages.setting, times.slowdown(),
                                times.moving_slowdown()),
                    Verdict::open,
                    stages.series};
  const std::optional<ColdSlowdowns> made = connecting_slowdowns(stages);
  if (!made) {
    takeaway.why = stages.is_connected ? "no first message made a connection of its own"
                                       : "threads have no connections to make";
    return takeaway;
  }
  takeaway.found = fmt::format("{}: {:.1f} times ({:.1f} to {:.1f}, {} pair{})", stages.setting, made->mean,
                               made->least, made->most, made->pairs, made->pairs == 1 ? "" : "s");
  takeaway.verdict = decided({made->mean, made->least, made->most}, k_least_slowdown,
                             std::numeric_limits<double>::infinity());
  if (takeaway.verdict == Verdict::open) {
    takeaway.why = "pairs that made a connection differ";
  }
  return takeaway;
}

std::vector<Takeaway> checked_takeaways(Study& study) {
  std::vector<Takeaway> all;
  add_small_messages(all, study);
  add_zero3(all, study);
  add_lengths_of(all, study);
  add_throughput_of(all, study);
  add_cold_receive(all, study);
  add_recorded_calls(all, study);
  return all;
}

ItemResult takeaways(Study& study) {
  Sheet sheet({"name", "verdict", Column{"what", "claim"}, Column{"value", "found"}, "expected", "why"});
  for (const Takeaway& takeaway : checked_takeaways(study)) {
    sheet.add({takeaway.id, name_of(takeaway.verdict), takeaway.claim, takeaway.found, takeaway.expected,
               takeaway.why},
              takeaway.series);
  }
  Item item{
      whole_of(
          sheet,
          "What the paper concludes, as checks. FAIL says that the claim does not hold there, and the number "
          "how far: of ZeRO-3 on models whose parameters stay gathered, and beside a ZeRO-1 that "
          "all_reduces. Open says why nothing here decides.",
          {FigureKind::table, {}, {"name", "series", "provenance"}}),
      {}};
  item.whole.notes.emplace_back(
      "A first receive waits until the stage before has ended its first iteration's work, and until the "
      "connection is made where that happens with the first message. \"Once sent\" leaves out the wait for "
      "the "
      "sender. Threads of one process have no connections, and over shared memory Open MPI says of none that "
      "a "
      "message made it: their numbers are shown and decide nothing.");
  item.whole.notes.emplace_back(
      "A simulated ratio passes or fails where the 90 % intervals of both times leave no doubt, a recorded "
      "one "
      "where every iteration of one is faster than every iteration of the other.");
  return item;
}

}  // namespace commlens::study
