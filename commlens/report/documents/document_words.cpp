#include "commlens/report/documents/document_words.hpp"

#include <cmath>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/report/figures/figure.hpp"

namespace commlens {
namespace {

Bytes whole_bytes(double bytes) { return Bytes{std::llround(bytes)}; }

std::string time_of_seconds(double seconds) {
  constexpr double billion = 1e9;
  return time_text(billion * seconds);
}

}  // namespace

std::string devices_text(std::int64_t ranks) {
  return fmt::format("{} device{}", with_commas(ranks), ranks == 1 ? "" : "s");
}

std::string searched_text(const SearchedOn& on, const std::string& devices) {
  return fmt::format("{}, {} sequences of {} tokens in {}, on {} of {} ({}), as {} runs it", on.model,
                     with_commas(on.sequences), with_commas(on.sequence), on.precision, devices, on.machine,
                     on.processor, on.framework);
}

std::string seconds_with_interval(const WithInterval& seconds) {
  return fmt::format("{} ({} to {})", time_of_seconds(seconds.value), time_of_seconds(seconds.low),
                     time_of_seconds(seconds.high));
}

std::string bytes_with_interval(const WithInterval& bytes) {
  return fmt::format("{} ({} to {})", to_text(whole_bytes(bytes.value)), to_text(whole_bytes(bytes.low)),
                     to_text(whole_bytes(bytes.high)));
}

std::vector<Cell> interval_cells(const WithInterval& number) {
  return {Cell(number.value), Cell(number.low), Cell(number.high)};
}

std::vector<Cell> memory_cells(const WithInterval& bytes) {
  return {Cell(whole_bytes(bytes.value)), Cell(whole_bytes(bytes.low)), Cell(whole_bytes(bytes.high))};
}

std::string verdict_of(const FoundLayout& layout) {
  return layout.is_equal ? "equal within the error" : "slower";
}

}  // namespace commlens
