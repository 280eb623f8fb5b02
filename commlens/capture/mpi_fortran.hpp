#pragma once

namespace commlens::capture {

/// Whether `address` lies in a library of Fortran bindings of the loaded MPI.
bool is_in_fortran_library(const void* address);

}  // namespace commlens::capture
