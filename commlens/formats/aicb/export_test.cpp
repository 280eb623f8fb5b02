#include "commlens/formats/aicb/export.hpp"

#include <gtest/gtest.h>

#include "commlens/formats/io/sink.hpp"

namespace commlens::formats::aicb {
namespace {

std::string aicb_of(const Trace& trace, const CallSelection& selection = {}) {
  std::string text;
  const Result<void> written = write(trace, selection, [&](std::string_view block) { text += block; });
  return written ? text : written.error().message;
}

constexpr std::string_view k_aicb_header =
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,"
    "count\n";
constexpr std::string_view k_epoch_end = "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1\n";

/// Two pipeline stages of two tensor ranks: initialisation, then one iteration.
Trace two_stages() {
  Trace trace(Mesh{{Axis::pp, 2}, {Axis::dp, 1}, {Axis::tp, 2}});
  GroupPattern tensor{.axis = Axis::tp};
  tensor.spans = {{Axis::tp, {Span::Shape::all}}};
  const GroupId group = trace.groups.intern(tensor);
  const OpId broadcast = trace.intern(CommOp{.kind = CommKind::broadcast,
                                             .dtype = DType::fp32,
                                             .phase = Phase::init,
                                             .group = group,
                                             .input = Elements{10},
                                             .output = Elements{10},
                                             .root = GroupRank{1}});
  const OpId gather = trace.intern(CommOp{.kind = CommKind::all_gather,
                                          .dtype = DType::bf16,
                                          .phase = Phase::forward,
                                          .group = group,
                                          .input = Elements{4},
                                          .output = Elements{8},
                                          .tag = trace.tags.intern("mlp, \"in\"")});
  const GroupPattern next{.shape = GroupPattern::Shape::to_next, .axis = Axis::pp, .along = Axis::pp};
  const OpId send = trace.intern(CommOp{.kind = CommKind::send,
                                        .dtype = DType::bf16,
                                        .phase = Phase::forward,
                                        .group = trace.groups.intern(next),
                                        .input = Elements{8}});
  trace.streams.push_back({{Rank{0}, Rank{1}}, {{broadcast, -1, -1}, {gather, 0, 0}, {send, 0, 0}}, {}, {}});
  const GroupPattern previous{
      .shape = GroupPattern::Shape::from_previous, .axis = Axis::pp, .along = Axis::pp};
  const OpId receive = trace.intern(CommOp{.kind = CommKind::recv,
                                           .dtype = DType::bf16,
                                           .phase = Phase::forward,
                                           .group = trace.groups.intern(previous),
                                           .output = Elements{8}});
  trace.streams.push_back({{Rank{2}, Rank{3}}, {{broadcast, -1, -1}, {receive, 0, 0}}, {}, {}});
  return trace;
}

TEST(Aicb, WritesARanksWorkload) {
  EXPECT_EQ(aicb_of(two_stages()),
            std::string(k_aicb_header) +
                "CommType.broadcast,CommGroup.tp_group,2,40,init,None,1,,None,None,None,1\n" +
                std::string(k_epoch_end) +
                "CommType.all_gather,CommGroup.tp_group,2,16,forward.mlp   in ,None,None,,None,None,None,1\n"
                "CommType.isend,CommGroup.pp_group,2,16,forward,2,None,send_next,None,None,None,1\n" +
                std::string(k_epoch_end));
  EXPECT_EQ(aicb_of(two_stages(), {.rank = Rank{3}}),
            std::string(k_aicb_header) +
                "CommType.broadcast,CommGroup.tp_group,2,40,init,None,3,,None,None,None,1\n" +
                std::string(k_epoch_end) +
                "CommType.irecv,CommGroup.pp_group,2,16,forward,None,1,recv_prev,None,None,None,1\n" +
                std::string(k_epoch_end));
}

TEST(Aicb, TakesTheGroupOfAllRanksWithoutAnAxis) {
  Trace trace;
  const OpId op = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                      .dtype = DType::uint8,
                                      .group = trace.groups.intern({Rank{0}, Rank{1}}),
                                      .input = Elements{3},
                                      .output = Elements{3}});
  trace.streams.push_back({{Rank{0}, Rank{1}}, {{op, 0, -1}}, {}, {}});
  EXPECT_NE(aicb_of(trace).find("CommType.all_reduce,CommGroup.all,2,3,other,None,None,,"),
            std::string::npos);
  trace.provenance.job_ranks = 4;  // then it is a group of half of them
  EXPECT_EQ(aicb_of(trace).find("CommGroup.all"), std::string::npos);
}

TEST(Aicb, LeavesOutCallsOfOneRank) {
  Trace trace = two_stages();
  const OpId alone =
      trace.intern(CommOp{.kind = CommKind::all_reduce, .group = trace.groups.intern({Rank{0}})});
  trace.streams[0].events = {{alone, 0, -1}};
  EXPECT_EQ(aicb_of(trace), std::string(k_aicb_header) + std::string(k_epoch_end));
}

TEST(Aicb, RefusesWhatItHasNoWordFor) {
  Trace trace;
  CommOp op{
      .kind = CommKind::all_reduce, .dtype = DType::uint8, .group = trace.groups.intern({Rank{0}, Rank{2}})};
  trace.streams.push_back({{Rank{0}, Rank{3}}, {{trace.intern(op), 0, -1}}, {}, {}});
  EXPECT_EQ(aicb_of(trace),
            "AICB names groups by their axis (dp, tp, pp, ep, all ranks); it is unknown for that of 1 call "
            "(the first: all_reduce of rank 0 on a group of 2 ranks)");
  op.group = trace.groups.intern(std::vector<Rank>{});
  trace.streams[0].events = std::vector<CommEvent>(3, {trace.intern(op), 0, -1});
  EXPECT_EQ(aicb_of(trace, {.rank = Rank{2}}),
            "AICB needs the size of every group; the trace does not tell that of 3 calls (the first: "
            "all_reduce of rank 2 on a group of unknown size)");
  op.kind = CommKind::other;
  op.name = trace.names.intern("MPI_Scan");
  trace.streams[0].events = {{trace.intern(op), 0, -1}};
  EXPECT_NE(aicb_of(trace).find("no word for the call \"MPI_Scan\""), std::string::npos);
  EXPECT_NE(aicb_of(trace, {.rank = Rank{9}}).find("rank 9 has no calls"), std::string::npos);
  EXPECT_NE(aicb_of(Trace()).find("no calls"), std::string::npos);
}

}  // namespace
}  // namespace commlens::formats::aicb
