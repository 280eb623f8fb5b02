#include "commlens/capture/mpi_fortran.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <link.h>

namespace commlens::capture {
namespace {

constexpr std::array<std::string_view, 4> k_bindings = {
    "libmpi_mpifh", "libmpi_usempi", "libmpichf", "libmpifort"};  // Open MPI's; MPICH's and its relatives'

struct Range {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
};

int add_code(dl_phdr_info* object, std::size_t /*size*/, void* ranges) {
  const std::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const bool is_binding = std::any_of(k_bindings.begin(), k_bindings.end(),
                                      [&](std::string_view library) { return file.starts_with(library); });
  if (!is_binding) {
    return 0;
  }
  for (ElfW(Half) at = 0; at < object->dlpi_phnum; ++at) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[at];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
      const std::uintptr_t first = object->dlpi_addr + segment.p_vaddr;
      static_cast<std::vector<Range>*>(ranges)->push_back({first, first + segment.p_memsz});
    }
  }
  return 0;
}

std::vector<Range> fortran_code() {
  std::vector<Range> ranges;
  dl_iterate_phdr(&add_code, &ranges);
  return ranges;
}

}  // namespace

// A Fortran program is linked with its bindings, so they are there before the first call.
bool is_in_fortran_library(const void* address) {
  static const std::vector<Range> ranges = fortran_code();
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.first <= where && where < range.end; });
}

}  // namespace commlens::capture
