#pragma once
#include <cstdint>

// Others that replace MPI functions: the library's Fortran bindings, which call its C functions, and
// tools of the same kind as this one (mpiP, Darshan, TAU), which come after or before it.
//
// A tool after it, preloaded by the user, gets each call that the program makes, as it would without us, and
// passes it on to the PMPI function. One before us (linked into the program, or put in front by its own
// launcher) hands us the program's calls as PMPI calls.
namespace commlens::capture {

/// How a call of the program came in, of this thread, as long as one lives; and where the last one returns
/// to.
enum class Entrance : std::uint8_t { none, mpi, pmpi };
class Entered {
 public:
  Entered(Entrance entrance, const void* caller) : before_(current_) {
    current_ = entrance;
    caller_ = caller;
  }
  ~Entered() { current_ = before_; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  static Entrance current() { return current_; }
  static const void* caller() { return caller_; }

 private:
  // The library is preloaded, so its place in a thread's memory is known when the process starts.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit Entrance current_;
  [[gnu::tls_model("initial-exec")]] static thread_local constinit const void* caller_;
  Entrance before_;
};

/// Where a call of one function goes from here.
struct Passage {
  void* tool = nullptr;  // a tool's MPI function after ours
  void* library = nullptr;
  /// What came in as PMPI is not the tool's to see.
  void* next() const { return tool == nullptr || Entered::current() == Entrance::pmpi ? library : tool; }
};
/// Of the function `pmpi_name` ("PMPI_Send").
Passage passage_of(const char* pmpi_name);

/// Code of a loaded program or library.
struct Code {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
  bool has(const void* address) const {
    const auto where = reinterpret_cast<std::uintptr_t>(address);
    return first <= where && where < end;
  }
};
/// The tools that get a program's calls of `pmpi_name` before we do, in C and in Fortran; empty without one.
struct ToolsBefore {
  Code of_c;
  Code of_fortran;
};
ToolsBefore tools_before(const char* pmpi_name);

/// Whether `address` lies in a library of Fortran bindings of the loaded MPI.
bool is_in_fortran_library(const void* address);

/// Where the program's call returns to: Entered::caller() or, when that is in the Fortran bindings, where
/// these return to, for which the stack is unwound (a microsecond). Null when it is not known.
const void* caller_in_program();

/// Whether a PMPI call from `caller` is one that the program has made: it comes from the Fortran bindings, or
/// from a tool that comes before us and is not at work on a call that came through us.
inline bool is_of_program(const void* caller, const ToolsBefore& tools) {
  return is_in_fortran_library(caller) ||
         (Entered::current() == Entrance::none && (tools.of_c.has(caller) || tools.of_fortran.has(caller)));
}

}  // namespace commlens::capture
