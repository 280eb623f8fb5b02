#include "commlens/live/metrics_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

/// Label values and help texts: what would end a line or a value early is escaped, other control characters
/// and what is no UTF-8 become a replacement character, since a parser refuses the whole page for one of
/// them.
std::string escaped(std::string_view text, bool escapes_quotes) {
  std::string out;
  while (!text.empty()) {
    const char first = text.front();
    const std::size_t length = utf8_length(text);
    const bool is_control = (first >= 0 && first < ' ') || first == '\x7f';
    if (first == '\\') {
      out += "\\\\";
    } else if (first == '\n') {
      out += "\\n";
    } else if (first == '"' && escapes_quotes) {
      out += "\\\"";
    } else if (length == 0 || is_control) {
      out += "\xef\xbf\xbd";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  return fmt::format("{}", value);
}

/// `le` of a bucket: OpenMetrics wants a float where Prometheus wrote a whole number.
std::string bound_text(double bound) {
  std::string text = fmt::format("{}", bound);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void append_labels(std::string& out, const MetricLabels& labels, std::string_view bound = {}) {
  if (labels.empty() && bound.empty()) {
    return;
  }
  out += '{';
  const char* comma = "";
  for (const auto& [name, value] : labels) {
    out += fmt::format("{}{}=\"{}\"", comma, name, escaped(value, true));
    comma = ",";
  }
  if (!bound.empty()) {
    out += fmt::format("{}le=\"{}\"", comma, bound);
  }
  out += '}';
}

void append_line(std::string& out, std::string_view name, const MetricLabels& labels,
                 const std::string& value) {
  out += name;
  append_labels(out, labels);
  out += ' ' + value + '\n';
}

void append_histogram(std::string& out, const MetricFamily& family, const MetricSample& sample) {
  for (std::size_t place = 0; place <= family.bounds.size(); ++place) {
    const bool is_last = place == family.bounds.size();
    out += family.name + "_bucket";
    append_labels(out, sample.labels, is_last ? "+Inf" : bound_text(family.bounds[place]));
    out += fmt::format(" {}\n", is_last ? sample.count : sample.counts[place]);
  }
  append_line(out, family.name + "_sum", sample.labels, number_text(sample.value));
  append_line(out, family.name + "_count", sample.labels, fmt::format("{}", sample.count));
}

/// The name on the lines of a family; on its `# TYPE` too in Prometheus' own format.
std::string line_name(const MetricFamily& family) {
  return family.name + (family.type == MetricType::counter ? "_total"
                        : family.type == MetricType::info  ? "_info"
                                                           : "");
}

std::string_view type_name(MetricType type, MetricsFormat format) {
  switch (type) {
    case MetricType::counter:
      return "counter";
    case MetricType::histogram:
      return "histogram";
    case MetricType::info:
      return format == MetricsFormat::openmetrics ? "info" : "gauge";
    case MetricType::gauge:
      break;
  }
  return "gauge";
}

void append_family(std::string& out, const MetricFamily& family, MetricsFormat format) {
  const std::string name = format == MetricsFormat::openmetrics ? family.name : line_name(family);
  out += fmt::format("# TYPE {} {}\n", name, type_name(family.type, format));
  if (format == MetricsFormat::openmetrics && !family.unit.empty()) {
    out += fmt::format("# UNIT {} {}\n", name, family.unit);
  }
  // OpenMetrics escapes quotes in help texts too.
  out += fmt::format("# HELP {} {}\n", name, escaped(family.help, format == MetricsFormat::openmetrics));
  for (const MetricSample& sample : family.samples) {
    if (family.type == MetricType::histogram) {
      append_histogram(out, family, sample);
    } else {
      append_line(out, line_name(family), sample.labels, number_text(sample.value));
    }
  }
}

}  // namespace

std::string metrics_text(const std::vector<MetricFamily>& families, MetricsFormat format) {
  std::string out;
  for (const MetricFamily& family : families) {
    if (!family.samples.empty()) {
      append_family(out, family, format);
    }
  }
  return format == MetricsFormat::openmetrics ? out + "# EOF\n" : out;
}

MetricsFormat metrics_format_of(const std::string& accept) {
  return accept.find("application/openmetrics-text") == std::string::npos ? MetricsFormat::prometheus
                                                                          : MetricsFormat::openmetrics;
}

std::string metrics_type_of(MetricsFormat format) {
  return format == MetricsFormat::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                              : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace commlens
