#include "commlens/capture/mpi_callers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include "commlens/capture/mpi_api.hpp"

namespace commlens::capture {

thread_local constinit Entrance Entered::current_ = Entrance::none;
thread_local constinit const void* Entered::caller_ = nullptr;

namespace {

constexpr std::array<std::string_view, 4> k_bindings = {
    "libmpi_mpifh", "libmpi_usempi", "libmpichf", "libmpifort"};  // Open MPI's; MPICH's and its relatives'

bool is_binding(const char* path) {
  const std::string_view whole = path == nullptr ? "" : path;
  const std::string_view file = whole.substr(whole.rfind('/') + 1);
  return std::any_of(k_bindings.begin(), k_bindings.end(),
                     [&](std::string_view library) { return file.starts_with(library); });
}

std::vector<Code> code_of(const dl_phdr_info& object) {
  std::vector<Code> code;
  for (ElfW(Half) at = 0; at < object.dlpi_phnum; ++at) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[at];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
      const std::uintptr_t first = object.dlpi_addr + segment.p_vaddr;
      code.push_back({first, first + segment.p_memsz});
    }
  }
  return code;
}

int add_bindings(dl_phdr_info* object, std::size_t /*size*/, void* found) {
  if (is_binding(object->dlpi_name)) {
    auto& all = *static_cast<std::vector<Code>*>(found);
    const std::vector<Code> code = code_of(*object);
    all.insert(all.end(), code.begin(), code.end());
  }
  return 0;
}

std::vector<Code> fortran_code() {
  std::vector<Code> code;
  dl_iterate_phdr(&add_bindings, &code);
  return code;
}

/// A function, and the code around it once it is found.
struct Search {
  const void* function;
  Code code;
};
int find_code(dl_phdr_info* object, std::size_t /*size*/, void* search) {
  auto& wanted = *static_cast<Search*>(search);
  for (const Code& code : code_of(*object)) {
    if (code.has(wanted.function)) {
      wanted.code = code;
      return 1;
    }
  }
  return 0;
}
Code code_around(const void* function) {
  Search search{function, {}};
  if (function != nullptr) {
    dl_iterate_phdr(&find_code, &search);
  }
  return search.code;
}

/// "mpi_send_", as Fortran compilers spell MPI_Send.
std::string fortran_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text + "_";
}

/// The library's or our own are no tools.
bool is_tool(const void* function, const void* of_library) {
  Dl_info about = {};
  if (function == nullptr || dladdr(function, &about) == 0 || is_binding(about.dli_fname)) {
    return false;
  }
  static const Code own = code_around(reinterpret_cast<const void*>(&is_in_fortran_library));
  return !own.has(function) && !code_around(of_library).has(function);
}

/// The walk up the stack to the bindings, and out of them.
struct Walk {
  bool is_in_bindings = false;
  const void* outside = nullptr;
};
_Unwind_Reason_Code take_frame(_Unwind_Context* frame, void* walk) {
  auto& taken = *static_cast<Walk*>(walk);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the unwinder's addresses are integers
  const auto* const address = reinterpret_cast<const void*>(_Unwind_GetIP(frame));
  const bool is_binding = is_in_fortran_library(address);
  if (taken.is_in_bindings && !is_binding) {
    taken.outside = address;
    return _URC_NORMAL_STOP;
  }
  taken.is_in_bindings = taken.is_in_bindings || is_binding;
  return _URC_NO_REASON;
}

}  // namespace

Passage passage_of(const char* pmpi_name) {
  void* const library = mpi_symbol(pmpi_name);
  void* const next = dlsym(RTLD_NEXT, pmpi_name + 1);
  return {.tool = is_tool(next, library) ? next : nullptr, .library = library};
}

ToolsBefore tools_before(const char* pmpi_name) {
  const char* const name = pmpi_name + 1;
  const void* const library = mpi_symbol(pmpi_name);
  const void* const in_c = dlsym(RTLD_DEFAULT, name);
  const void* const in_fortran = dlsym(RTLD_DEFAULT, fortran_name(name).c_str());
  return {.of_c = is_tool(in_c, library) ? code_around(in_c) : Code{},
          .of_fortran = is_tool(in_fortran, library) ? code_around(in_fortran) : Code{}};
}

// A Fortran program is linked with its bindings, so they are there before the first call.
bool is_in_fortran_library(const void* address) {
  static const std::vector<Code> code = fortran_code();
  return std::any_of(code.begin(), code.end(), [&](const Code& part) { return part.has(address); });
}

const void* caller_in_program() {
  const void* const caller = Entered::caller();
  if (!is_in_fortran_library(caller)) {
    return caller;
  }
  Walk walk;
  _Unwind_Backtrace(&take_frame, &walk);
  return walk.outside;
}

}  // namespace commlens::capture
