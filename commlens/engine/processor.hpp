#pragma once
#include <cstdint>

namespace commlens::engine {

/// Prevents oneDNN, LibTorch's matrix library, from using AMX units whose tiles are hidden by a hypervisor:
/// the processor reports AMX (CPUID leaf 7), but no palette of tiles (leaf 0x1D). oneDNN then configures
/// none, and its first tile instruction raises SIGILL; seen with oneDNN 2.6 and 3.12 under Firecracker. Has
/// effect before the first product only; does nothing when DNNL_MAX_CPU_ISA or ONEDNN_MAX_CPU_ISA is set. Any
/// number of threads may call it at once.
void avoid_broken_amx();

/// Threads of each operation of the calling rank, those of OpenBLAS included, whose pool LibTorch does not
/// set: ranks that are threads of one process would share it and wait for each other. OpenBLAS has one number
/// a process.
void use_threads(std::int64_t threads);

/// Lets freed memory stay with the process. An iteration frees and allocates the same activations and
/// gradients again; returned to the system, each comes back as page faults.
void keep_freed_memory();

}  // namespace commlens::engine
