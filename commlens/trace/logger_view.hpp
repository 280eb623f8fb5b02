#pragma once
#include "commlens/base/units.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The size DeepSpeed's comms logger prints for a call: as message_bytes, but an all_gather shows its input
/// shard. Source: deepspeed 0.14.0 comm/utils.py:58-128 get_msg_size_from_args.
Bytes logged_bytes(const CommOp& op);

/// Whether that logger sees the calls of a rule. It wraps deepspeed.comm (comm/comm.py:106-141 timed_op);
/// what other libraries, GPT-NeoX, Megatron or torch, ask of torch.distributed directly passes it by. A
/// source starts with the library and its version. Calls without a rule, of our own trainer or of the paper's
/// equations are assumed to be seen.
bool logger_sees(const Rule& rule);

}  // namespace commlens
