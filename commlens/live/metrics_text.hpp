#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace commlens {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;  // name and value; any bytes as value

/// One line of counts or one gauge; of a histogram the buckets, cumulative, without that of +Inf.
struct MetricSample {
  MetricLabels labels;
  double value = 0;                  // of a histogram the sum
  std::vector<std::int64_t> counts;  // of a histogram: values <= its bounds
  std::int64_t count = 0;            // of a histogram: all values
};

enum class MetricType : std::uint8_t { counter, gauge, histogram, info };

/// Samples of one meaning and unit, as Prometheus and OpenMetrics name them.
struct MetricFamily {
  std::string name;  // with unit, without the _total of counters and the _info of infos
  std::string help;
  MetricType type = MetricType::gauge;
  std::string unit;            // OpenMetrics: "seconds", "bytes"; a suffix of the name
  std::vector<double> bounds;  // of histograms, ascending
  std::vector<MetricSample> samples;
};

enum class MetricsFormat : std::uint8_t { prometheus, openmetrics };

/// The families in the order given: Prometheus' text format 0.0.4, or OpenMetrics 1.0 with the last line `#
/// EOF`. Families without samples are left out. Sources: Prometheus documentation, "Exposition formats";
/// OpenMetrics 1.0.0, "Text format".
std::string metrics_text(const std::vector<MetricFamily>& families, MetricsFormat format);

/// What a client that accepts `accept` gets: OpenMetrics where the header names it.
MetricsFormat metrics_format_of(const std::string& accept);

/// The media type of a format.
std::string metrics_type_of(MetricsFormat format);

}  // namespace commlens
