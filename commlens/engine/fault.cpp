#include "commlens/engine/fault.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens::engine {
namespace {

Result<void> set_field(Fault& fault, std::string_view key, std::string_view value) {
  if (key == "kind") {
    fault.kind = value == "kill"    ? Fault::Kind::kill
                 : value == "nan"   ? Fault::Kind::nan
                 : value == "stall" ? Fault::Kind::stall
                                    : Fault::Kind::error;
    if (fault.kind != Fault::Kind::error || value == "throw") {
      return {};
    }
    return failure(fmt::format("COMMLENS_FAULT: '{}' is no kind; choose throw, kill, nan or stall", value));
  }
  const Result<std::int64_t> number = parse_integer(value);
  if (!number || *number < 0 || (key != "rank" && key != "iteration")) {
    return failure(
        fmt::format("COMMLENS_FAULT: cannot read '{}={}'; write rank=2,iteration=1,kind=throw", key, value));
  }
  (key == "rank" ? fault.rank : fault.iteration) = *number;
  return {};
}

}  // namespace

Result<Fault> fault_from_environment() {
  const char* const text = std::getenv("COMMLENS_FAULT");
  if (text == nullptr || *text == '\0') {
    return Fault{};
  }
  Fault fault{.kind = Fault::Kind::error};
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const Result<void> set = set_field(fault, part.substr(0, equals),
                                       equals == std::string_view::npos ? "" : part.substr(equals + 1));
    if (!set) {
      return tl::unexpected(set.error());
    }
  }
  return fault;
}

}  // namespace commlens::engine
