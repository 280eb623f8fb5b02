#pragma once

/// A function or variable that the library shows to the program, under its C name.
#define COMMLENS_NCCL_EXPORT extern "C" __attribute__((visibility("default")))
