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
#include "commlens/trace/json_text.hpp"

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
  explicit MpipReader(std::string origin) : builder_("mpiP", origin), origin_(std::move(origin)) {}

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
  void add(CallRecord record, std::int64_t calls);
  CallRecord record_of(const MpipRow& row) const;

  MpipSection section_ = MpipSection::other;
  std::map<std::int64_t, std::string> places_;                                // site -> where it is
  std::vector<MpipRow> timed_;                                                // per rank
  std::vector<MpipRow> sent_;                                                 // per rank
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sent_calls_;  // site, rank -> calls
  bool has_sums_ = false;                                                     // of all ranks
  bool is_concise_ = false;                                                   // made with mpiP's option -c
  std::int64_t calls_ = 0;
  CallBuilder builder_;
  std::string origin_;
};

void MpipReader::take_row(std::string_view line) {
  auto row = mpip_row(line);
  if (!row) {
    const bool is_text =
        line.find_first_of("0123456789") == std::string_view::npos || line.starts_with("Name ");
    if (!is_text) {
      builder_.provenance().skip("row that is cut off or impossible");
    }
    return;
  }
  if (row->rank < 0) {
    has_sums_ = true;
  } else if (row->rank >= k_max_ranks) {
    builder_.provenance().skip("row that is cut off or impossible");
  } else if (section_ == MpipSection::sent) {
    std::int64_t& calls = sent_calls_[{row->site, row->rank}];
    calls += std::min(row->count, k_most_mpip_calls + 1);  // more is refused
    sent_.push_back(std::move(*row));
  } else {
    timed_.push_back(std::move(*row));
  }
}

/// Whether a call of that name returns at once: "Isend", "Iallreduce", "Send_init", and one-sided transfers.
bool is_non_blocking(std::string_view call) {
  constexpr std::array<std::string_view, 12> others = {
      "Put",         "Get",          "Accumulate",       "Get_accumulate",  "Rput",  "Rget",
      "Raccumulate", "Fetch_and_op", "Compare_and_swap", "Rget_accumulate", "Start", "Startall"};
  const bool is_setup = call.starts_with("Init") || call.starts_with("Intercomm") ||
                        call.starts_with("Info") || call.starts_with("Is_");
  return (call.starts_with("I") && !is_setup) || call.ends_with("_init") ||
         std::find(others.begin(), others.end(), call) != others.end();
}

CallRecord MpipReader::record_of(const MpipRow& row) const {
  CallRecord record;
  record.rank = row.rank;
  record.iteration_unknown = true;
  const CommKind kind = mpip_kind(row.call);
  record.op = kind;
  record.dtype = DType::uint8;
  record.input_bytes = 0;
  record.output_bytes = 0;
  record.blocking = !is_non_blocking(row.call);
  record.group.is_given = true;
  if (is_point_to_point(kind)) {
    record.group_size = 2;
  }
  const auto place = places_.find(row.site);
  record.site = place == places_.end() ? fmt::format("site {}", row.site)
                                       : fmt::format("site {} {}", row.site, valid_utf8(place->second));
  record.name = row.call;
  return record;
}

void MpipReader::add(CallRecord record, std::int64_t calls) {
  const CommKind kind = record.op.known.value_or(CommKind::other);
  const bool is_both = kind == CommKind::all_reduce || has_root(kind);
  record.output_bytes = is_both ? record.input_bytes : 0;
  if (!builder_.add_times(record, calls)) {
    builder_.provenance().skip(std::string(k_skipped_impossible), calls);
  }
}

void MpipReader::add_sent(const MpipRow& row) {
  const auto sizes = mpip_sizes(row);
  if (!sizes) {
    builder_.provenance().skip("row that is cut off or impossible");
    return;
  }
  CallRecord record = record_of(row);
  record.rounding_bytes = sizes->rounding;
  record.input_bytes = sizes->bytes;
  add(record, row.count - sizes->larger);
  record.input_bytes = sizes->bytes + 1;
  add(std::move(record), sizes->larger);
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
/// the others the report says too little.
void MpipReader::add_unsent(const MpipRow& row) {
  const CommKind kind = mpip_kind(row.call);
  if (kind != CommKind::other) {
    add(record_of(row), row.count);
  } else {
    builder_.provenance().skip(
        receives(row.call) ? "receive (the report has no size of it)" : "call that sends nothing", row.count);
  }
}

Result<Trace> MpipReader::finish() {
  for (std::vector<MpipRow>* const rows : {&sent_, &timed_}) {
    for (MpipRow& row : *rows) {
      if (rows == &timed_) {
        row.count -= take_sent(row);
      }
      if (row.count > k_most_mpip_calls - calls_) {
        return failure(fmt::format("{}: the report counts more than {} calls; is a count damaged?", origin_,
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
        origin_));
  }
  Trace trace = builder_.finish();
  if (trace.streams.empty()) {
    return failure(
        fmt::format("{}: no statistics per call site and rank{}; run without the options -c and -d of mpiP",
                    origin_, has_sums_ ? ", only their sums" : ""));
  }
  return trace;
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<MpipReader>(path); }

bool sniff(const std::filesystem::path&, std::string_view head) {
  return head.starts_with("@ mpiP\n") || head.starts_with("@ mpiP\r\n");
}

}  // namespace commlens::formats::mpip
