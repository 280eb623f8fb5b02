#pragma once

namespace commlens::engine {

/// Keeps LibTorch 1.x from the processor's AMX units: the oneDNN 2.6 it comes with stops the process there
/// (SIGILL at the first bf16 product on a processor with AMX). Has effect before the first product only; does
/// nothing when DNNL_MAX_CPU_ISA or ONEDNN_MAX_CPU_ISA is set. Any number of threads may call it at once.
void avoid_broken_amx();

}  // namespace commlens::engine
