#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace commlens::formats {

/// What NCCL puts before each line, "host:pid:tid [device] NCCL INFO": who printed it.
struct NcclPrinter {
  std::string_view process;  // "host:pid"
  std::int64_t device = 0;   // current CUDA device of the thread
  // Other text of NCCL is before it in the line, whose last characters `process` may begin with.
  bool is_behind_text = false;
};

/// One message of NCCL's log; a line of a log may hold several, when processes write at once.
struct NcclMessage {
  NcclPrinter printer;
  std::string_view text;  // after "NCCL INFO "
};

/// Calls `take` for each message of a line. Returns what comes before the first one (all, when there is
/// none): what a launcher adds, or the rest of a line that another process broke into.
std::string_view for_each_nccl_message(std::string_view line,
                                       const std::function<void(const NcclMessage&)>& take);

/// "AllReduce: opCount 1a sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 comm 0x3 [nranks=2] …":
/// one call, as NCCL_DEBUG_SUBSYS=COLL prints it. Source: NCCL 2.3 to 2.30 enqueue.cc:ncclEnqueueCheck.
struct NcclCallLine {
  std::string_view function;
  std::int64_t count = 0;
  std::int64_t datatype = 0;
  std::int64_t operation = 0;  // ncclRedOp_t; 0 of calls that reduce nothing
  std::int64_t root = 0;       // send and recv: the peer; a rank of the communicator
  std::string_view comm;
  std::int64_t ranks = 0;
  std::optional<std::int64_t> global_rank;  // RCCL only
};

/// std::nullopt if the text is no call or only a part of one.
std::optional<NcclCallLine> nccl_call_line(std::string_view text);

/// Whether the text starts like a call ("AllReduce: …"), whole or not.
bool starts_nccl_call(std::string_view text);

/// "[ncclCommInitRank ]comm 0x1 rank 0 nranks 2 cudaDev 0 …": a communicator and the place of its owner in
/// it. Printed when one is made and when it is destroyed. Source: NCCL 2.3 to 2.30 init.cc.
struct NcclCommLine {
  /// What the line says: a communicator is being made, has been made, has been destroyed or aborted.
  enum class Moment : std::uint8_t { unknown, start, complete, end };
  Moment moment = Moment::unknown;
  std::string_view comm;
  std::int64_t rank = 0;
  std::int64_t ranks = 0;
  std::optional<std::int64_t> device;  // cudaDev
  std::string_view id;                 // commId, the same on all members (2.16 on); else, and if 0x0, empty
  std::string_view parent;             // of a split: the parent's comm, which split, and which part
  std::string_view split;
  std::string_view color;
};
std::optional<NcclCommLine> nccl_comm_line(std::string_view text);

}  // namespace commlens::formats
