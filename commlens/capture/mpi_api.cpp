#include "commlens/capture/mpi_api.hpp"

#include <array>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <link.h>

namespace commlens::capture {
namespace {

constexpr std::array<std::string_view, 3> k_libraries = {"libmpi.so", "libmpich.so", "libmpi_cray.so"};

bool is_mpi_library(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view library : k_libraries) {
    if (file.starts_with(library)) {
      return true;
    }
  }
  return false;
}

int add_mpi_library(dl_phdr_info* object, std::size_t /*size*/, void* paths) {
  if (object->dlpi_name != nullptr && is_mpi_library(object->dlpi_name)) {
    static_cast<std::vector<std::string>*>(paths)->emplace_back(object->dlpi_name);
  }
  return 0;
}

/// An MPI library that was loaded where its names are not visible to all, as Python does.
void* private_library() {
  std::vector<std::string> paths;
  dl_iterate_phdr(&add_mpi_library, &paths);
  for (const std::string& path : paths) {
    if (void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD); library != nullptr) {
      return library;
    }
  }
  return nullptr;
}

#ifdef OPEN_MPI
constexpr bool k_is_openmpi = true;
#else
constexpr bool k_is_openmpi = false;
#endif

}  // namespace

// A program may hold its own copy of a variable of the library (a copy relocation); then it comes first in
// the order that RTLD_DEFAULT follows. A function of ours comes before the library's, so it is looked for
// after it.
void* mpi_symbol(const char* name) {
  const bool is_function = std::string_view(name).starts_with("PMPI");
  if (void* const found = dlsym(is_function ? RTLD_NEXT : RTLD_DEFAULT, name); found != nullptr) {
    return found;
  }
  void* const library = private_library();
  return library == nullptr ? nullptr : dlsym(library, name);
}

bool is_matching_library() {
  const bool is_openmpi = mpi_symbol("ompi_mpi_comm_world") != nullptr;
  return is_openmpi == k_is_openmpi;
}

int mpi_function_is_missing() { return MPI_ERR_OTHER; }

const Handles& handles() {
  static const Handles known = {.world = MPI_COMM_WORLD,
                                .no_comm = MPI_COMM_NULL,
                                .self = MPI_COMM_SELF,
                                .no_request = MPI_REQUEST_NULL,
                                .no_message = MPI_MESSAGE_NULL,
                                .message_of_nobody = MPI_MESSAGE_NO_PROC,
                                .no_type = MPI_DATATYPE_NULL,
                                .byte = MPI_BYTE,
                                .no_window = MPI_WIN_NULL,
                                .no_op = MPI_NO_OP,
                                .reductions = {{{MPI_SUM, Reduction::sum},
                                                {MPI_MAX, Reduction::max},
                                                {MPI_MIN, Reduction::min},
                                                {MPI_PROD, Reduction::product},
                                                {MPI_BAND, Reduction::band},
                                                {MPI_BOR, Reduction::bor},
                                                {MPI_BXOR, Reduction::bxor},
                                                {MPI_LAND, Reduction::land},
                                                {MPI_LOR, Reduction::lor},
                                                {MPI_LXOR, Reduction::lxor},
                                                {MPI_MAXLOC, Reduction::maxloc},
                                                {MPI_MINLOC, Reduction::minloc},
                                                {MPI_REPLACE, Reduction::other},
                                                {MPI_NO_OP, Reduction::unknown}}}};
  return known;
}

Reduction reduction_of(MPI_Op op) {
  for (const auto& [known, reduction] : handles().reductions) {
    if (op == known) {
      return reduction;
    }
  }
  return Reduction::other;
}

}  // namespace commlens::capture
