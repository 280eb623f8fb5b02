#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlens/transport/call_check.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// One call with the buffers of all members, cut into pieces that threads carry out in any order.
class Exchange {
 public:
  /// Room for groups of up to `members`.
  explicit Exchange(std::size_t members);

  /// Adds the buffers of a member; the first one defines the call. A send is member 0 of its pair, a recv
  /// member 1.
  void post(std::size_t member, const CommCall& call, bool is_first);
  const CommCall& call() const { return call_; }

  struct PostedCall {
    std::size_t member = 0;
    CommCall call;
  };
  /// The calls of unequal parts that have been posted, each with sizes of its own. Their spans are those of
  /// the callers.
  const std::vector<PostedCall>& with_parts() const { return with_parts_; }

  /// After all `members` have posted: the number of pieces, 0 if there is nothing to do. Neighbouring pieces
  /// belong to the same member.
  std::int64_t cut(std::size_t members);

  /// The pieces [first_piece(m), first_piece(m + 1)) are best carried out by the thread of member m: they
  /// write to its output, whose memory then stays in the cache of its core. Where all outputs are written
  /// alike, each member has an equal share.
  std::int64_t first_piece(std::size_t member) const {
    return pieces_ * static_cast<std::int64_t>(member) / static_cast<std::int64_t>(members_);
  }

  /// Carries out one piece, [0, cut()). Pieces write to different places.
  void perform(std::int64_t piece) const;

 private:
  /// Elements that go from an input to an output. In a reduce_scatter they are combined of all inputs.
  struct Move {
    std::size_t source = 0;
    std::int64_t from = 0;
    std::size_t destination = 0;
    std::int64_t to = 0;
    std::int64_t count = 0;
  };

  std::int64_t cut_rows();
  void list_moves();
  void add_move(const Move& move);
  void perform_move(const Move& move) const;
  void perform_part(std::int64_t row, std::int64_t first, std::int64_t count) const;
  void gather(std::size_t destination, std::int64_t first, std::int64_t count) const;
  void copy(std::size_t source, std::int64_t from, std::size_t destination, std::int64_t to,
            std::int64_t count) const;

  CommCall call_;
  std::vector<PostedCall> with_parts_;
  std::vector<Move> moves_;               // pieces of calls of unequal parts, gather and scatter
  std::vector<const std::byte*> inputs_;  // by member
  std::vector<std::byte*> outputs_;
  std::size_t members_ = 0;
  std::int64_t rows_ = 0;        // parts of equal size: the outputs of the members, or one for all
  std::int64_t row_count_ = 0;   // elements of a row
  std::int64_t row_pieces_ = 0;  // pieces of a row
  std::int64_t pieces_ = 0;
};

}  // namespace commlens
