#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "commlens/comm/event.hpp"

// The MPI library of the program, without a link to it: the capture library is loaded into every process of a
// command, shells and launchers included, and must not drag an MPI into those that have none. Python loads
// its MPI late and privately, so that nothing here could be bound when the process starts.
namespace commlens::capture {

/// The function or variable `name` of the MPI library that this process has loaded; null when it has none.
void* mpi_symbol(const char* name);

/// Whether the loaded MPI library is the one that this file was compiled for: handles of the other one have
/// another size.
bool is_matching_library();

/// "Open MPI" or "MPICH": what this file was compiled for.
constexpr std::string_view k_library =
#ifdef OPEN_MPI
    "Open MPI";
#else
    "MPICH";
#endif

/// Replaces a function that the loaded library does not have.
int mpi_function_is_missing();

inline void* function_or_missing(void* function) {
  return function != nullptr ? function : reinterpret_cast<void*>(&mpi_function_is_missing);
}

/// The loaded library's function of that name, of the type its declaration has.
template <typename Function>
Function* mpi_function(const char* name) {
  return reinterpret_cast<Function*>(function_or_missing(mpi_symbol(name)));
}

/// Handles in one word, whatever the library makes them of.
template <typename Handle>
std::uint64_t key_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return static_cast<std::uint32_t>(handle);
  }
}

/// A handle as an argument, as wide as that of any library: a program of the other library, which is passed
/// on, gets its own back whole. Handles are pointers (Open MPI) or int (MPICH); each takes one register or
/// one word of the stack.
struct HandleWord {
  std::uint64_t word;
  operator int() const { return static_cast<int>(word); }  // NOLINT: replaces the handle
};
template <typename Handle>
using HandleArgument = std::conditional_t<std::is_pointer_v<Handle>, Handle, HandleWord>;

/// Whether a function of the library could be called with the arguments of ours.
template <typename Function, typename Ours>
struct TakesArguments;
template <typename Function, typename... Arguments>
struct TakesArguments<Function, int(Arguments...)> : std::is_invocable_r<int, Function, Arguments...> {};

/// A predefined handle. Open MPI's are addresses of variables of its library.
#ifdef OPEN_MPI
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) (static_cast<type>(commlens::capture::mpi_symbol(#global)))
#endif

/// Predefined handles that calls are compared with, looked up once.
struct Handles {
  MPI_Comm world;
  MPI_Comm no_comm;
  MPI_Comm self;
  MPI_Request no_request;
  MPI_Message no_message;
  MPI_Message message_of_nobody;
  MPI_Datatype no_type;
  MPI_Datatype byte;
  MPI_Win no_window;
  MPI_Op no_op;
  std::array<std::pair<MPI_Op, Reduction>, 14> reductions;
};
const Handles& handles();

/// What a reduction of the library does; `other` for one of the program.
Reduction reduction_of(MPI_Op op);

}  // namespace commlens::capture

/// The loaded library's function of that name (PMPI_Send); looked up once per place of use.
#define COMMLENS_REAL(NAME)                                                               \
  ([] {                                                                                   \
    static auto* const function = commlens::capture::mpi_function<decltype(NAME)>(#NAME); \
    return function;                                                                      \
  }())

/// The same, called with handles of either library. PARAMETERS are in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses): a second pair would make them a type
#define COMMLENS_REAL_AS(NAME, PARAMETERS)                                                                  \
  ([] {                                                                                                     \
    static_assert(commlens::capture::TakesArguments<decltype(NAME), int PARAMETERS>::value, "as in mpi.h"); \
    static auto* const function = commlens::capture::mpi_function<int PARAMETERS>(#NAME);                   \
    return function;                                                                                        \
  }())

/// Where a call of the program goes on: to a tool after us, or the library's function (mpi_callers.hpp).
/// NAME is that of the PMPI function.
#define COMMLENS_NEXT(NAME)                                                                           \
  ([] {                                                                                               \
    static const commlens::capture::Passage passage = commlens::capture::passage_of(#NAME);           \
    return reinterpret_cast<decltype(NAME)*>(commlens::capture::function_or_missing(passage.next())); \
  }())
#define COMMLENS_NEXT_AS(NAME, PARAMETERS)                                                                  \
  ([] {                                                                                                     \
    static_assert(commlens::capture::TakesArguments<decltype(NAME), int PARAMETERS>::value, "as in mpi.h"); \
    static const commlens::capture::Passage passage = commlens::capture::passage_of(#NAME);                 \
    return reinterpret_cast<int(*) PARAMETERS>(commlens::capture::function_or_missing(passage.next()));     \
  }())
// NOLINTEND(bugprone-macro-parentheses)
