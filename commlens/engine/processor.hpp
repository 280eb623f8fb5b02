#pragma once
#include <cstdint>

namespace commlens::engine {

/// Keeps LibTorch 1.x from the processor's AMX units: the oneDNN 2.6 it comes with stops the process there
/// (SIGILL at the first bf16 product on a processor with AMX). Has effect before the first product only; does
/// nothing when DNNL_MAX_CPU_ISA or ONEDNN_MAX_CPU_ISA is set. Any number of threads may call it at once.
void avoid_broken_amx();

/// Threads of each operation of the calling rank, those of OpenBLAS included, whose pool LibTorch does not
/// set: ranks that are threads of one process would share it and wait for each other. OpenBLAS has one number
/// a process.
void use_threads(std::int64_t threads);

/// Lets freed memory stay with the process. An iteration frees and allocates the same activations and
/// gradients again; returned to the system, each comes back as page faults.
void keep_freed_memory();

}  // namespace commlens::engine
