#include "commlens/machine/machine.hpp"

#include <algorithm>

namespace commlens {
namespace {

constexpr std::array<std::string_view, 7> k_architectures = {"volta", "ampere", "hopper", "blackwell",
                                                             "cdna2", "cdna3",  "other"};
constexpr std::array<std::string_view, 4> k_vendors = {"intel", "amd", "arm", "other"};

template <typename Value, std::size_t Count>
std::optional<Value> place_in(const std::array<std::string_view, Count>& names, std::string_view name) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<Value>(found - names.begin()));
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  return k_architectures[static_cast<std::size_t>(architecture)];
}
std::optional<Architecture> architecture_from(std::string_view name) {
  return place_in<Architecture>(k_architectures, name);
}
std::string_view name_of(CpuVendor vendor) { return k_vendors[static_cast<std::size_t>(vendor)]; }
std::optional<CpuVendor> cpu_vendor_from(std::string_view name) {
  return place_in<CpuVendor>(k_vendors, name);
}

}  // namespace commlens
