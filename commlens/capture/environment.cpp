#include "commlens/capture/environment.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "commlens/trace/stream_layout.hpp"

namespace commlens::capture {

bool asked_light_profiler() noexcept {
  const char* const text = std::getenv(k_profiler_variable);
  return text != nullptr && std::string_view(text) == "light";
}

std::int64_t asked_ring() noexcept {
  const char* const text = std::getenv(k_ring_variable);
  const std::string_view asked = text == nullptr ? "" : text;
  std::int64_t records = 0;
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), records);
  const bool is_number = error == std::errc() && end == asked.data() + asked.size();
  return is_number && records > 0 && records <= k_most_ring_records ? records : 0;
}

}  // namespace commlens::capture
