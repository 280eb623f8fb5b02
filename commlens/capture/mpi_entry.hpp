#pragma once
#include "commlens/capture/mpi_api.hpp"
#include "commlens/capture/mpi_callers.hpp"
#include "commlens/capture/mpi_has.hpp"

/// Macros that make the exported functions of mpi_calls.def. Macros, because a C function needs its own name
/// and parameter list; what they expand to does nothing but call templates.

// NOLINTBEGIN(bugprone-macro-parentheses): what has no parentheses is a type, a function, or a list in
// parentheses
#define COMMLENS_EXPORT extern "C" __attribute__((visibility("default")))
#define COMMLENS_UNWRAP(...) __VA_ARGS__

// COMMLENS_WHEN(MPI_Bcast_c)(code): the code if mpi.h declares that function. mpi_has.hpp, made by CMake,
// defines COMMLENS_HAS_NAME as `~, 1` for each that it does.
#define COMMLENS_SECOND(first, second, ...) second
#define COMMLENS_PROBE(...) COMMLENS_SECOND(__VA_ARGS__, 0, 0)
#define COMMLENS_HAS(NAME) COMMLENS_PROBE(COMMLENS_HAS_##NAME)
#define COMMLENS_WHEN_0(...)
#define COMMLENS_WHEN_1(...) __VA_ARGS__
#define COMMLENS_JOIN_EXPANDED(a, b) a##b
#define COMMLENS_JOIN(a, b) COMMLENS_JOIN_EXPANDED(a, b)
#define COMMLENS_WHEN(NAME) COMMLENS_JOIN(COMMLENS_WHEN_, COMMLENS_HAS(NAME))

// The exported NAME, which is `recorded_NAME`. Fortran functions call MPI functions of the C library (MPICH's
// module mpi) or PMPI functions (its mpi_f08, and all of Open MPI's), and a tool before us calls PMPI
// functions; so these are ours too, and pass on what the program has not made. In C++ they have names of
// their own, because mpi.h declares MPI_NAME with narrower arguments.
#define COMMLENS_ENTRY(NAME, PNAME, PARAMETERS, ARGUMENTS)                                                   \
  COMMLENS_EXPORT int entry_##NAME PARAMETERS __asm__(#NAME);                                                \
  COMMLENS_EXPORT int entry_##PNAME PARAMETERS __asm__(#PNAME);                                              \
  int entry_##NAME PARAMETERS {                                                                              \
    const commlens::capture::Entered entered(commlens::capture::Entrance::mpi, __builtin_return_address(0)); \
    return recorded_##NAME ARGUMENTS;                                                                        \
  }                                                                                                          \
  int entry_##PNAME PARAMETERS {                                                                             \
    static const commlens::capture::ToolsBefore tools = commlens::capture::tools_before(#PNAME);             \
    if (!commlens::capture::is_of_program(__builtin_return_address(0), tools)) {                             \
      return COMMLENS_REAL_AS(PNAME, PARAMETERS) ARGUMENTS;                                                  \
    }                                                                                                        \
    const commlens::capture::Entered entered(commlens::capture::Entrance::pmpi,                              \
                                             __builtin_return_address(0));                                   \
    return recorded_##NAME ARGUMENTS;                                                                        \
  }

// A call that is complete when it returns. The rest of the arguments fills `out`.
#define COMMLENS_WRAP_BLOCKING(NAME, PNAME, PARAMETERS, ARGUMENTS, ...)            \
  COMMLENS_WHEN(NAME)                                                              \
  (static int recorded_##NAME PARAMETERS {                                         \
    static commlens::NameId name{};                                                \
    auto* const real = COMMLENS_NEXT_AS(PNAME, PARAMETERS);                        \
    Session* const recording = Session::of_process();                              \
    if (recording == nullptr) {                                                    \
      return real ARGUMENTS;                                                       \
    }                                                                              \
    Description out;                                                               \
    out.call.blocking = true;                                                      \
    const auto describe = [&]([[maybe_unused]] Session& session) -> Description& { \
      __VA_ARGS__;                                                                 \
      return out;                                                                  \
    };                                                                             \
    const Session::Slot slot = recording->begin(#NAME, name, describe);            \
    const int code = real ARGUMENTS;                                               \
    recording->end(slot, code);                                                    \
    return code;                                                                   \
  } COMMLENS_ENTRY(NAME, PNAME, PARAMETERS, ARGUMENTS))

// A call whose request completes later.
#define COMMLENS_WRAP_REQUEST(NAME, PNAME, PARAMETERS, ARGUMENTS, ...)                      \
  COMMLENS_WHEN(NAME)                                                                       \
  (static int recorded_##NAME(COMMLENS_UNWRAP PARAMETERS, MPI_Request* request) {           \
    static commlens::NameId name{};                                                         \
    auto* const real = COMMLENS_NEXT_AS(PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Request*)); \
    Session* const recording = Session::of_process();                                       \
    if (recording == nullptr) {                                                             \
      return real(COMMLENS_UNWRAP ARGUMENTS, request);                                      \
    }                                                                                       \
    Description out;                                                                        \
    out.call.blocking = false;                                                              \
    const auto describe = [&]([[maybe_unused]] Session& session) -> Description& {          \
      __VA_ARGS__;                                                                          \
      return out;                                                                           \
    };                                                                                      \
    const Session::Slot slot = recording->begin(#NAME, name, describe);                     \
    const int code = real(COMMLENS_UNWRAP ARGUMENTS, request);                              \
    recording->issued(out, slot, request, code);                                            \
    return code;                                                                            \
  } COMMLENS_ENTRY(NAME, PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Request * request),        \
                   (COMMLENS_UNWRAP ARGUMENTS, request)))

// A call that MPI_Start starts.
#define COMMLENS_WRAP_PERSISTENT(NAME, PNAME, PARAMETERS, ARGUMENTS, ...)                   \
  COMMLENS_WHEN(NAME)                                                                       \
  (static int recorded_##NAME(COMMLENS_UNWRAP PARAMETERS, MPI_Request* request) {           \
    static commlens::NameId name{};                                                         \
    auto* const real = COMMLENS_NEXT_AS(PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Request*)); \
    Session* const recording = Session::of_process();                                       \
    const int code = real(COMMLENS_UNWRAP ARGUMENTS, request);                              \
    if (recording == nullptr) {                                                             \
      return code;                                                                          \
    }                                                                                       \
    Description out;                                                                        \
    out.call.blocking = false;                                                              \
    const auto describe = [&]([[maybe_unused]] Session& session) -> Description& {          \
      __VA_ARGS__;                                                                          \
      return out;                                                                           \
    };                                                                                      \
    recording->prepared(#NAME, name, describe, request, code);                              \
    return code;                                                                            \
  } COMMLENS_ENTRY(NAME, PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Request * request),        \
                   (COMMLENS_UNWRAP ARGUMENTS, request)))

// A receive, whose status says what it was. DESCRIBE is a statement that fills `out`.
#define COMMLENS_WRAP_RECEIVE(NAME, PNAME, PARAMETERS, ARGUMENTS, DESCRIBE)                \
  COMMLENS_WHEN(NAME)                                                                      \
  (static int recorded_##NAME(COMMLENS_UNWRAP PARAMETERS, MPI_Status* status) {            \
    static commlens::NameId name{};                                                        \
    auto* const real = COMMLENS_NEXT_AS(PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Status*)); \
    return record_receive(                                                                 \
        {#NAME, name}, status, [&](Session& session, Description& out) { DESCRIBE; },      \
        [&](MPI_Status* seen) { return real(COMMLENS_UNWRAP ARGUMENTS, seen); });          \
  } COMMLENS_ENTRY(NAME, PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Status * status),         \
                   (COMMLENS_UNWRAP ARGUMENTS, status)))

// A send and a receive in one.
#define COMMLENS_WRAP_EXCHANGE(NAME, PNAME, PARAMETERS, ARGUMENTS, SEND, RECEIVE)          \
  COMMLENS_WHEN(NAME)                                                                      \
  (static int recorded_##NAME(COMMLENS_UNWRAP PARAMETERS, MPI_Status* status) {            \
    static commlens::NameId name{};                                                        \
    auto* const real = COMMLENS_NEXT_AS(PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Status*)); \
    return record_exchange(                                                                \
        {#NAME, name}, status, [&](Session& session, Description& out) { SEND; },          \
        [&](Session& session, Description& out) { RECEIVE; },                              \
        [&](MPI_Status* seen) { return real(COMMLENS_UNWRAP ARGUMENTS, seen); });          \
  } COMMLENS_ENTRY(NAME, PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Status * status),         \
                   (COMMLENS_UNWRAP ARGUMENTS, status)))
#define COMMLENS_WRAP_EXCHANGE_REQUEST(NAME, PNAME, PARAMETERS, ARGUMENTS, SEND, RECEIVE)   \
  COMMLENS_WHEN(NAME)                                                                       \
  (static int recorded_##NAME(COMMLENS_UNWRAP PARAMETERS, MPI_Request* request) {           \
    static commlens::NameId name{};                                                         \
    auto* const real = COMMLENS_NEXT_AS(PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Request*)); \
    return record_exchange_request(                                                         \
        {#NAME, name}, request, [&](Session& session, Description& out) { SEND; },          \
        [&](Session& session, Description& out) { RECEIVE; },                               \
        [&] { return real(COMMLENS_UNWRAP ARGUMENTS, request); });                          \
  } COMMLENS_ENTRY(NAME, PNAME, (COMMLENS_UNWRAP PARAMETERS, MPI_Request * request),        \
                   (COMMLENS_UNWRAP ARGUMENTS, request)))

// A receive of a message that a probe took out of the queue: the message knows whence and how much.
#define COMMLENS_WRAP_MATCHED(NAME, PNAME, COUNT_TYPE, LAST_TYPE, ENDED)                                     \
  COMMLENS_WHEN(NAME)                                                                                        \
  (static int recorded_##NAME(void* buffer, COUNT_TYPE count, HandleArgument<MPI_Datatype> type,             \
                              MPI_Message* message, LAST_TYPE* last) {                                       \
    static commlens::NameId name{};                                                                          \
    auto* const real = COMMLENS_NEXT_AS(                                                                     \
        PNAME, (void*, COUNT_TYPE, HandleArgument<MPI_Datatype>, MPI_Message*, LAST_TYPE*));                 \
    return ENDED({#NAME, name}, message, type, last,                                                         \
                 [&](LAST_TYPE* given) { return real(buffer, count, type, message, given); });               \
  } COMMLENS_ENTRY(NAME, PNAME,                                                                              \
                   (void* buffer, COUNT_TYPE count, HandleArgument<MPI_Datatype> type, MPI_Message* message, \
                    LAST_TYPE* last),                                                                        \
                   (buffer, count, type, message, last)))
// NOLINTEND(bugprone-macro-parentheses)
