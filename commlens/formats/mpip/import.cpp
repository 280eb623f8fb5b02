#include "commlens/formats/mpip/import.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/mpip/lines.hpp"

namespace commlens::formats::mpip {
namespace {

constexpr std::int64_t k_most_mpip_calls = 50'000'000;

bool receives(std::string_view call) {
  constexpr std::array<std::string_view, 6> calls = {"Recv",   "Irecv",     "Mrecv",
                                                     "Imrecv", "Recv_init", "Precv_init"};
  return std::find(calls.begin(), calls.end(), call) != calls.end();
}

class MpipReader {
 public:
  explicit MpipReader(const std::string& origin) {
    trace_.provenance.source = Source::imported;
    trace_.provenance.producer = "mpiP";
    trace_.provenance.description = origin;
  }

  void take(std::string_view line) {
    if (const auto section = mpip_section(line)) {
      section_ = *section;
      is_concise_ = is_concise_ || section_ == MpipSection::concise;
      return;
    }
    if (section_ == MpipSection::sites) {
      if (auto site = mpip_site(line)) {
        places_.try_emplace(site->site, std::move(site->place));
      }
    } else if (section_ == MpipSection::times || section_ == MpipSection::sent) {
      take_row(line);
    }
  }

  Result<Trace> finish();

 private:
  void take_row(std::string_view line);
  std::int64_t take_sent(const MpipRow& row);
  void add_sent(const MpipRow& row);
  void add_unsent(const MpipRow& row);
  void add(const MpipRow& row, CommOp op, std::int64_t calls);
  CommOp op_of(const MpipRow& row);

  MpipSection section_ = MpipSection::other;
  std::map<std::int64_t, std::string> places_;                                // site -> where it is
  std::vector<MpipRow> timed_;                                                // per rank
  std::vector<MpipRow> sent_;                                                 // per rank
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sent_calls_;  // site, rank -> calls
  bool has_sums_ = false;                                                     // of all ranks
  bool is_concise_ = false;                                                   // made with mpiP's option -c
  std::map<std::int64_t, RankStream> streams_;
  std::int64_t calls_ = 0;
  Trace trace_;
};

void MpipReader::take_row(std::string_view line) {
  auto row = mpip_row(line);
  if (!row) {
    const bool is_text =
        line.find_first_of("0123456789") == std::string_view::npos || line.starts_with("Name ");
    if (!is_text) {
      trace_.provenance.skip("row that is cut off or impossible");
    }
    return;
  }
  if (row->rank < 0) {
    has_sums_ = true;
  } else if (row->rank >= k_max_ranks) {
    trace_.provenance.skip("row that is cut off or impossible");
  } else if (section_ == MpipSection::sent) {
    std::int64_t& calls = sent_calls_[{row->site, row->rank}];
    calls += std::min(row->count, k_most_mpip_calls + 1);  // more is refused
    sent_.push_back(std::move(*row));
  } else {
    timed_.push_back(std::move(*row));
  }
}

CommOp MpipReader::op_of(const MpipRow& row) {
  CommOp op;
  op.kind = mpip_kind(row.call);
  op.dtype = DType::uint8;
  op.group = is_point_to_point(op.kind) ? trace_.groups.intern_hidden(2, "")
                                        : trace_.groups.intern(std::vector<Rank>{});
  const auto place = places_.find(row.site);
  op.tag = trace_.tags.intern(fmt::format("site {}{}{}", row.site, place == places_.end() ? "" : " ",
                                          place == places_.end() ? "" : place->second));
  op.name = trace_.names.intern(op.kind == CommKind::other ? row.call : std::string());
  return op;
}

void MpipReader::add(const MpipRow& row, CommOp op, std::int64_t calls) {
  if (calls == 0) {
    return;
  }
  const bool is_both = op.kind == CommKind::all_reduce || has_root(op.kind);
  op.output = is_both ? op.input : Elements{};
  RankStream& stream =
      streams_.try_emplace(row.rank, RankStream{{Rank{row.rank}, Rank{row.rank}}, {}, {}, {}}).first->second;
  stream.events.insert(stream.events.end(), static_cast<std::size_t>(calls),
                       CommEvent{trace_.intern(op), k_unknown_iteration, k_no_micro_batch});
}

void MpipReader::add_sent(const MpipRow& row) {
  const auto sizes = mpip_sizes(row);
  if (!sizes) {
    trace_.provenance.skip("row that is cut off or impossible");
    return;
  }
  CommOp op = op_of(row);
  op.rounding = Bytes{sizes->rounding};
  op.input = Elements{sizes->bytes};
  add(row, op, row.count - sizes->larger);
  op.input = Elements{sizes->bytes + 1};
  add(row, op, sizes->larger);
}

/// How many calls of a row of times have a size, so that the others sent nothing.
std::int64_t MpipReader::take_sent(const MpipRow& row) {
  const auto sent = sent_calls_.find({row.site, row.rank});
  if (sent == sent_calls_.end()) {
    return 0;
  }
  const std::int64_t calls = std::min(sent->second, row.count);
  sent->second -= calls;
  return calls;
}

/// Calls that sent nothing: those that could have are messages of no bytes (barriers, a broadcast of 0), of
/// the others the report tells too little.
void MpipReader::add_unsent(const MpipRow& row) {
  const CommKind kind = mpip_kind(row.call);
  if (kind != CommKind::other) {
    add(row, op_of(row), row.count);
  } else {
    trace_.provenance.skip(
        receives(row.call) ? "receive (the report has no size of it)" : "call that sends nothing", row.count);
  }
}

Result<Trace> MpipReader::finish() {
  const std::string& origin = trace_.provenance.description;
  for (std::vector<MpipRow>* const rows : {&sent_, &timed_}) {
    for (MpipRow& row : *rows) {
      if (rows == &timed_) {
        row.count -= take_sent(row);
      }
      if (row.count > k_most_mpip_calls - calls_) {
        return failure(fmt::format("{}: the report counts more than {} calls; is a count damaged?", origin,
                                   k_most_mpip_calls));
      }
      if (row.count == 0) {
        continue;
      }
      calls_ += row.count;
      if (rows == &sent_) {
        add_sent(row);
      } else {
        add_unsent(row);
      }
    }
  }
  if (is_concise_) {
    return failure(fmt::format(
        "{}: a concise report (mpiP's option -c) has the total bytes and milliseconds of a rank at "
        "each call site, but not how many calls they were; run without -c",
        origin));
  }
  if (streams_.empty()) {
    return failure(
        fmt::format("{}: no statistics per call site and rank{}; run without the options -c and -d of mpiP",
                    origin, has_sums_ ? ", only their sums" : ""));
  }
  for (auto& [rank, stream] : streams_) {
    trace_.streams.push_back(std::move(stream));
  }
  return std::move(trace_);
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<MpipReader>(path); }

bool sniff(const std::filesystem::path&, std::string_view head) {
  return head.starts_with("@ mpiP\n") || head.starts_with("@ mpiP\r\n");
}

}  // namespace commlens::formats::mpip
