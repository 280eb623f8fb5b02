#include "commlens/app/source_lines.hpp"

#include <cstdlib>

#include <cxxabi.h>
#include <dlfcn.h>

namespace commlens {
namespace {

// elfutils/libdwfl.h, whose types are pointers to what only the library knows; the same since 0.122 (2006).
using Dwfl = void;
using DwflModule = void;
using DwflLine = void;
using DwflAddress = std::uint64_t;
struct DwflCallbacks {
  void* find_elf = nullptr;
  void* find_debuginfo = nullptr;
  void* section_address = nullptr;
  char** debuginfo_path = nullptr;
};

/// The functions of libdw; null where it is not installed.
struct Libdw {
  Dwfl* (*begin)(const DwflCallbacks*) = nullptr;
  void (*end)(Dwfl*) = nullptr;
  DwflModule* (*report_offline)(Dwfl*, const char* name, const char* file, int descriptor) = nullptr;
  int (*report_end)(Dwfl*, void* removed, void* argument) = nullptr;
  const char* (*name_at)(DwflModule*, DwflAddress) = nullptr;
  DwflLine* (*line_at)(DwflModule*, DwflAddress) = nullptr;
  const char* (*line_info)(DwflLine*, DwflAddress*, int* line, int* column, DwflAddress*,
                           DwflAddress*) = nullptr;
  void* (*elf)(DwflModule*, DwflAddress* bias) = nullptr;
  DwflCallbacks callbacks;
  bool is_whole = false;
};

template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Libdw loaded_libdw() {
  Libdw dw;
  void* const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    return dw;
  }
  dw.callbacks.find_debuginfo = dlsym(library, "dwfl_standard_find_debuginfo");
  dw.callbacks.section_address = dlsym(library, "dwfl_offline_section_address");
  dw.is_whole = find_symbol(library, "dwfl_begin", dw.begin) && find_symbol(library, "dwfl_end", dw.end) &&
                find_symbol(library, "dwfl_report_offline", dw.report_offline) &&
                find_symbol(library, "dwfl_report_end", dw.report_end) &&
                find_symbol(library, "dwfl_module_addrname", dw.name_at) &&
                find_symbol(library, "dwfl_module_getsrc", dw.line_at) &&
                find_symbol(library, "dwfl_lineinfo", dw.line_info) &&
                find_symbol(library, "dwfl_module_getelf", dw.elf) &&
                dw.callbacks.find_debuginfo != nullptr && dw.callbacks.section_address != nullptr;
  return dw;
}

const Libdw& libdw() {
  static const Libdw dw = loaded_libdw();
  return dw;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc): made by malloc
  return result;
}

}  // namespace

struct SourceLines::State {
  Dwfl* session = nullptr;
  DwflModule* module = nullptr;
  DwflAddress bias = 0;
};

bool SourceLines::are_known() { return libdw().is_whole; }

SourceLines::SourceLines(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  const Libdw& dw = libdw();
  state_->session = dw.is_whole ? dw.begin(&dw.callbacks) : nullptr;
  if (state_->session == nullptr) {
    return;
  }
  state_->module = dw.report_offline(state_->session, file.c_str(), file.c_str(), -1);
  dw.report_end(state_->session, nullptr, nullptr);
  if (state_->module != nullptr && dw.elf(state_->module, &state_->bias) == nullptr) {
    state_->module = nullptr;
  }
}

SourceLines::~SourceLines() {
  if (state_->session != nullptr) {
    libdw().end(state_->session);
  }
}

SourceLine SourceLines::at(std::uint64_t address) const {
  SourceLine found;
  if (state_->module == nullptr) {
    return found;
  }
  const Libdw& dw = libdw();
  const DwflAddress at = address + state_->bias;
  if (const char* const name = dw.name_at(state_->module, at)) {
    found.function = demangled(name);
  }
  if (DwflLine* const line = dw.line_at(state_->module, at)) {
    const char* const file = dw.line_info(line, nullptr, &found.line, nullptr, nullptr, nullptr);
    found.file = file == nullptr ? "" : file;
  }
  return found;
}

}  // namespace commlens
