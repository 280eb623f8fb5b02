#include "commlens/formats/io/call_text.hpp"

#include <algorithm>
#include <numeric>

#include "commlens/trace/json_text.hpp"

namespace commlens::formats {
namespace {

constexpr std::size_t k_block = std::size_t{1} << 20;

/// A group as the rank at hand sees it.
struct GroupText {
  std::vector<Rank> members;
  std::string text;
  std::string line_end;
  std::int64_t seen_by = -1;  // the rank; explicit groups look the same to all
};

class CallWriter {
 public:
  CallWriter(const Trace& trace, const CallSyntax& syntax, const TextSink& sink)
      : trace_(trace), syntax_(syntax), sink_(sink), ops_(trace.ops().size()), groups_(trace.groups.count()) {
    block_.reserve(k_block + k_block / 4);
  }

  void write(const RankStream& stream, Rank rank) {
    std::string opening(syntax_.rank);
    append_number(opening, rank.value);
    opening += syntax_.iteration;
    for (std::size_t index = 0; index < stream.events.size(); ++index) {
      block_ += opening;
      write(stream.events[index], rank, stream.times.empty() ? nullptr : &stream.times[index]);
      if (block_.size() >= k_block) {
        flush();
      }
    }
  }

  void write_compute(const RankStream& stream, Rank rank) {
    for (const ComputeInterval& compute : stream.compute) {
      block_ += syntax_.rank;
      append_number(block_, rank.value);
      block_ += syntax_.iteration;
      append_iteration(compute.iteration);
      block_ += syntax_.compute;
      append_number(block_, compute.started.count());
      block_ += syntax_.duration;
      append_number(block_, (compute.finished - compute.started).count());
      block_ += syntax_.compute_end;
      if (block_.size() >= k_block) {
        flush();
      }
    }
  }

  void flush() {
    if (!block_.empty()) {
      sink_(block_);
      block_.clear();
    }
  }

 private:
  void write(const CommEvent& event, Rank rank, const Times* times) {
    append_iteration(event.iteration);
    const CommOp& op = trace_.op(event.op);
    const OpText& text = op_text(event.op);
    const GroupText& group = group_text(op.group, rank);
    block_ += text.head;
    block_ += group.text;
    if (has_root(op.kind) && !op.root && !group.members.empty()) {
      block_ += syntax_.root;
      block_ += syntax_.unknown_root;
    } else {
      append(syntax_.root, root_of(op, group));
    }
    append(syntax_.peer, peer_of(op, group, rank));
    append(syntax_.micro_batch, event.micro_batch == k_no_micro_batch
                                    ? std::nullopt
                                    : std::optional<std::int64_t>(event.micro_batch));
    block_ += text.labels;
    if (times != nullptr) {
      append(syntax_.start, times->started.count());
      append(syntax_.duration, (times->finished - times->started).count());
    } else {
      append(syntax_.start, std::nullopt);
      append(syntax_.duration, std::nullopt);
    }
    block_ += text.end;
    block_ += group.line_end;
  }

  void append_iteration(Iteration iteration) {
    if (iteration == k_unknown_iteration) {
      block_ += syntax_.unknown_iteration;
    } else {
      append_number(block_, iteration);
    }
  }

  void append(std::string_view opening, std::optional<std::int64_t> value) {
    if (value) {
      block_ += opening;
      append_number(block_, *value);
    } else if (syntax_.keeps_absent_fields) {
      block_ += opening;
    }
  }

  static std::optional<std::int64_t> root_of(const CommOp& op, const GroupText& group) {
    if (!op.root || op.root->value < 0 || op.root->value >= static_cast<std::int64_t>(group.members.size())) {
      return std::nullopt;
    }
    return group.members[static_cast<std::size_t>(op.root->value)].value;
  }

  static std::optional<std::int64_t> peer_of(const CommOp& op, const GroupText& group, Rank rank) {
    if (!is_point_to_point(op.kind) || group.members.size() != 2) {
      return std::nullopt;
    }
    return group.members[group.members.front() == rank ? 1 : 0].value;
  }

  const OpText& op_text(OpId id) {
    OpText& text = ops_[static_cast<std::size_t>(id)];
    if (!text.is_made) {
      text = syntax_.op_text(trace_, trace_.op(id));
      text.is_made = true;
    }
    return text;
  }

  const GroupText& group_text(GroupId id, Rank rank) {
    GroupText& group = groups_[static_cast<std::size_t>(id)];
    const bool is_explicit = trace_.groups.pattern(id) == nullptr;
    if (group.seen_by < 0 || (!is_explicit && group.seen_by != rank.value)) {
      group.members = trace_.groups.members(id, rank);
      group.text = syntax_.group_text(trace_.groups, id, group.members);
      group.line_end = syntax_.line_end(trace_.groups, id);
      group.seen_by = rank.value;
    }
    return group;
  }

  const Trace& trace_;
  const CallSyntax& syntax_;
  const TextSink& sink_;
  std::vector<OpText> ops_;
  std::vector<GroupText> groups_;
  std::string block_;
};

}  // namespace

void write_calls(const Trace& trace, const CallSelection& selection, const CallSyntax& syntax,
                 const TextSink& sink) {
  std::vector<std::size_t> rows(trace.streams.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::sort(rows.begin(), rows.end(),
            [&](std::size_t a, std::size_t b) { return trace.streams[a].ranks < trace.streams[b].ranks; });
  CallWriter writer(trace, syntax, sink);
  for (const std::size_t row : rows) {
    const RankStream& stream = trace.streams[row];
    for (const Rank rank : selected_ranks(stream.ranks, selection.rank)) {
      writer.write(stream, rank);
      if (selection.compute) {
        writer.write_compute(stream, rank);
      }
    }
  }
  writer.flush();
}

}  // namespace commlens::formats
