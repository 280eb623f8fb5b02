#include "commlens/app/iteration_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/units.hpp"
#include "commlens/model/flops.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using engine::IterationReport;

constexpr std::array<CommKind, 6> k_timed_ops = {CommKind::all_reduce,     CommKind::all_gather,
                                                 CommKind::reduce_scatter, CommKind::all_to_all,
                                                 CommKind::send,           CommKind::recv};

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double blocked_s(const IterationReport& iteration, CommKind kind) {
  return seconds(iteration.communication.blocked[static_cast<std::size_t>(kind)]);
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent_text(double part) { return fmt::format("{:.1f} %", 100 * part); }

std::string loss_text(double loss) { return fmt::format("{:.{}f}", loss, loss < 1000 ? 4 : 1); }

std::string tera_text(double flops) {
  constexpr double tera = 1e12;
  const double value = flops / tera;
  return fmt::format("{:.{}f}", value, value >= 100 ? 1 : value >= 1 ? 2 : 4);
}

}  // namespace

IterationRates rates_of(const IterationReport& iteration, const Job& job) {
  const auto tokens = static_cast<double>(job.layout.dp * job.train.micro_batch * job.train.micro_batches) *
                      static_cast<double>(job.model.sequence);
  IterationRates rates;
  rates.time_s = seconds(iteration.time);
  rates.tokens_per_second = share(tokens, rates.time_s);
  rates.flops_per_second_per_rank = share(iteration_flops_per_rank(job).value, rates.time_s);
  const auto& blocked = iteration.communication.blocked;
  rates.communication_share = share(
      seconds(std::accumulate(blocked.begin(), blocked.end(), std::chrono::nanoseconds{})), rates.time_s);
  return rates;
}

IterationReport mean_of(const std::vector<IterationReport>& iterations) {
  COMMLENS_CHECK(!iterations.empty(), "nothing has no mean");
  const auto count = static_cast<std::int64_t>(iterations.size());
  IterationReport mean;
  for (const IterationReport& iteration : iterations) {
    mean.time += iteration.time;
    for (std::size_t kind = 0; kind < CommClock::k_kinds; ++kind) {
      mean.communication.blocked[kind] += iteration.communication.blocked[kind];
      mean.communication.calls[kind] += iteration.communication.calls[kind];
    }
  }
  mean.time /= count;
  for (std::size_t kind = 0; kind < CommClock::k_kinds; ++kind) {
    mean.communication.blocked[kind] /= count;
    mean.communication.calls[kind] /= count;
  }
  return mean;
}

IterationTable::IterationTable(const Job& job, const std::vector<CommKind>& ops, const TextStyle& style)
    : job_(job) {
  using Report = const IterationReport&;
  using Rates = const IterationRates&;
  cells_ = {
      {"iteration", 9, [](Report row, Rates) { return fmt::format("{}", row.iteration); }, false},
      {"loss", 7, [](Report row, Rates) { return loss_text(row.loss); }, false},
      {"lr", 7, [](Report row, Rates) { return fmt::format("{:.1e}", row.learning_rate); }, false},
      {"tokens/s", 9, [](Report, Rates rates) { return with_commas(std::llround(rates.tokens_per_second)); }},
      {"TFLOP/s", 7, [](Report, Rates rates) { return tera_text(rates.flops_per_second_per_rank); }},
      {"ms", 7, [](Report, Rates rates) { return fmt::format("{:.1f}", 1000 * rates.time_s); }},
      {"in comm", 7, [](Report, Rates rates) { return percent_text(rates.communication_share); }},
  };
  if (job.train.gradient_clipping > 0) {
    cells_.insert(cells_.begin() + 2,
                  {"norm", 7, [](Report row, Rates) { return loss_text(row.gradient_norm); }, false});
  }
  std::size_t width = 0;
  for (const Cell& cell : cells_) {
    width += cell.width + 2;
  }
  for (const CommKind op : ops) {
    const std::string title(name_of(op));
    width += std::max<std::size_t>(title.size(), 7) + 2;
    if (style.width > 0 && width - 2 > style.width) {
      hidden_.push_back(title);
      continue;
    }
    cells_.push_back({title, std::max<std::size_t>(title.size(), 7), [op](Report row, Rates rates) {
                        return percent_text(share(blocked_s(row, op), rates.time_s));
                      }});
  }
}

std::string IterationTable::joined(const std::function<std::string(const Cell&)>& text) const {
  std::string line;
  for (const Cell& cell : cells_) {
    line += fmt::format("{}{:>{}}", line.empty() ? "" : "  ", text(cell), cell.width);
  }
  return line;
}

std::string IterationTable::title_line() const {
  return joined([](const Cell& cell) { return cell.title; });
}

std::string IterationTable::line(const IterationReport& iteration, bool is_mean) const {
  const IterationRates rates = rates_of(iteration, job_);
  return joined([&](const Cell& cell) {
    if (is_mean && !cell.in_mean) {
      return std::string(cell.title == "iteration" ? "mean" : "");
    }
    return cell.text(iteration, rates);
  });
}

Table iterations_table(const std::vector<IterationReport>& iterations, const Job& job, std::int64_t cold) {
  std::vector<Column> list = columns({"iteration", "cold", "loss", "gradient_norm", "learning_rate", "time_s",
                                      "tokens_per_s", "flops_per_s_per_rank", "communication_share_rank_0"});
  for (const char* const key : {"OP_blocked_s_rank_0", "OP_calls_rank_0"}) {
    for (const CommKind op : k_timed_ops) {
      Column column = column_of(op, key);
      column.json = fmt::format("{}.{}", std::string_view(key).substr(3), name_of(op));
      list.push_back(std::move(column));
    }
  }
  for (Column& column : columns({"loss_scale", "skipped"})) {
    list.push_back(std::move(column));
  }
  Table table(std::move(list));
  for (const IterationReport& iteration : iterations) {
    const IterationRates rates = rates_of(iteration, job);
    std::vector<Cell> cells = {
        iteration.iteration,      iteration.iteration == cold,
        iteration.loss,           job.train.gradient_clipping > 0 ? Cell(iteration.gradient_norm) : Cell(),
        iteration.learning_rate,  rates.time_s,
        rates.tokens_per_second,  rates.flops_per_second_per_rank,
        rates.communication_share};
    for (const CommKind op : k_timed_ops) {
      cells.emplace_back(blocked_s(iteration, op));
    }
    for (const CommKind op : k_timed_ops) {
      cells.emplace_back(iteration.communication.calls[static_cast<std::size_t>(op)]);
    }
    cells.emplace_back(iteration.loss_scale);
    cells.emplace_back(iteration.skipped);
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace commlens
