#pragma once
#include <string_view>
#include <vector>

#include "commlens/live/job_view.hpp"
#include "commlens/live/metrics_text.hpp"

namespace commlens {

enum class MetricsLevel : std::uint8_t {
  lite,  // of the job: counters, states counted, culprits, the latest ranks
  full   // and histograms of durations, and what each rank does
};

/// What a job communicates, as metrics for Prometheus: docs/live.md lists them. Counters are since the job
/// began, and begin anew with another recording in its folder. All have the label job_id. Values of labels
/// come from closed sets, or are the first k_most_label_values of them; what is beyond has "other", and is
/// counted in commlens_labels_capped. `version`: of commlens.
std::vector<MetricFamily> live_metrics(const JobView& view, MetricsLevel level, std::string_view version);

constexpr std::size_t k_most_label_values = 256;  // of a metric
constexpr std::size_t k_most_culprits = 64;
constexpr std::size_t k_most_late_ranks = 32;

}  // namespace commlens
