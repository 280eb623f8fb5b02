#pragma once
#include <cstdint>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/deepspeed/pass_runner.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::deepspeed {

/// What the job's modules send: AutoTP's all_reduces of its linears, Ulysses' exchanges around attention, the
/// exchanges of experts. Null: nothing. `out` outlives it.
ModuleMessages module_messages(ProgramBuilder& out);

/// Tokens that each expert takes, counted in fp32. Source: moe/sharded_moe.py:152 _capacity of 0.19.8.
std::int64_t expert_capacity(const Job& job);
/// What DeepSpeed's experts assert of it, and sizes that no rank sends.
Result<void> check_capacity(const Job& job);

/// What AutoTP's engine sends before the first forward pass: the inputs of the first rank, which the others
/// compare. Source: runtime/engine.py:970 of 0.19.8.
void write_first_inputs(ProgramBuilder& out);

/// Where tp_model_init broadcasts the state of the random numbers, which is longer on a CPU. Source:
/// runtime/tensor_parallel/tp_manager.py:33 of 0.18.5.
void write_random_state(ProgramBuilder& out);

/// One refill of UlyssesSPDataLoaderAdapter, which lasts for as many micro-batches as ranks share a sequence:
/// token ids, labels and positions of all of them. Source: runtime/sequence_parallel/ulysses_sp.py:678 of
/// 0.19.8.
void write_refill(ProgramBuilder& out);

}  // namespace commlens::deepspeed
