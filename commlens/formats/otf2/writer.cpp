#include "commlens/formats/otf2/writer.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <otf2/otf2.h>

#include "commlens/formats/io/op_details.hpp"
#include "commlens/formats/io/timeline.hpp"
#include "commlens/formats/otf2/api.hpp"
#include "commlens/formats/otf2/comms.hpp"
#include "commlens/formats/otf2/error.hpp"
#include "commlens/formats/otf2/events.hpp"
#include "commlens/formats/otf2/names.hpp"
#include "commlens/formats/otf2/records.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::otf2 {
namespace {

constexpr std::int64_t k_most_ranks = std::int64_t{1} << 20;
constexpr std::uint64_t k_chunk = std::uint64_t{1} << 20;

OTF2_FlushType always_flush(void* /*user*/, OTF2_FileType /*type*/, OTF2_LocationRef /*location*/,
                            void* /*caller*/, bool /*is_final*/) {
  return OTF2_FLUSH;
}

struct ArchiveCloser {
  void operator()(OTF2_Archive* archive) const { OTF2_Archive_Close(archive); }
};
struct AttributesDeleter {
  void operator()(OTF2_AttributeList* list) const { OTF2_AttributeList_Delete(list); }
};

/// Numbers given in order of first use.
template <typename Key>
class Numbers {
 public:
  std::uint32_t of(const Key& key) {
    const auto [found, added] = numbers_.try_emplace(key, static_cast<std::uint32_t>(keys_.size()));
    if (added) {
      keys_.push_back(key);
    }
    return found->second;
  }
  const std::vector<Key>& keys() const { return keys_; }

 private:
  std::map<Key, std::uint32_t> numbers_;
  std::vector<Key> keys_;
};

/// Fields as attributes, by the type their values have.
struct AttributeName {
  std::string name;
  OTF2_Type type = OTF2_TYPE_STRING;
  friend auto operator<=>(const AttributeName&, const AttributeName&) = default;
};

/// A function, and what it does.
struct RegionName {
  std::string name;
  CommKind kind = CommKind::other;
  friend auto operator<=>(const RegionName&, const RegionName&) = default;
};

OTF2_RegionRole role_of(CommKind kind) {
  switch (kind) {
    case CommKind::send:
    case CommKind::recv:
      return OTF2_REGION_ROLE_POINT2POINT;
    case CommKind::broadcast:
      return OTF2_REGION_ROLE_COLL_ONE2ALL;
    case CommKind::reduce:
      return OTF2_REGION_ROLE_COLL_ALL2ONE;
    case CommKind::barrier:
      return OTF2_REGION_ROLE_BARRIER;
    case CommKind::other:
      return OTF2_REGION_ROLE_FUNCTION;
    default:
      return OTF2_REGION_ROLE_COLL_ALL2ALL;
  }
}

std::int64_t ranks_in(const Trace& trace) {
  std::int64_t ranks = trace.ranks();
  std::set<GroupId> seen;
  for (const CommOp& op : trace.ops()) {
    if (seen.insert(op.group).second && !trace.groups.pattern(op.group)) {
      for (const Rank member : trace.groups.members(op.group, Rank{0})) {  // the same to every rank
        ranks = std::max(ranks, member.value + 1);
      }
    }
  }
  const std::optional<Mesh> mesh = trace.groups.mesh();
  return mesh ? std::max(ranks, mesh->ranks()) : ranks;
}

class Otf2Writer {
 public:
  Otf2Writer(const Trace& trace, std::filesystem::path directory, std::int64_t ranks)
      : trace_(trace),
        directory_(std::move(directory)),
        ranks_(ranks),
        timeline_(timeline_of(trace, std::nullopt)),
        attributes_(OTF2_AttributeList_New()),
        events_(static_cast<std::size_t>(ranks), 0),
        comms_(trace, ranks) {
    strings_.of("");
  }

  Result<void> write() {
    archive_.reset(OTF2_Archive_Open(directory_.c_str(), "traces", OTF2_FILEMODE_WRITE, k_chunk, 4 * k_chunk,
                                     OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE));
    if (!archive_) {
      fail();
    }
    static const OTF2_FlushCallbacks callbacks = {.otf2_pre_flush = always_flush, .otf2_post_flush = nullptr};
    check(OTF2_Archive_SetFlushCallbacks(archive_.get(), &callbacks, nullptr));
    check(OTF2_Archive_SetSerialCollectiveCallbacks(archive_.get()));
    check(OTF2_Archive_SetCreator(archive_.get(), "commlens"));
    check(OTF2_Archive_SetDescription(archive_.get(), valid_utf8(trace_.provenance.description).c_str()));
    check(OTF2_Archive_SetProperty(archive_.get(), k_otf2_times,
                                   timeline_.has_times ? "measured" : "order only", true));
    check(OTF2_Archive_SetProperty(archive_.get(), k_otf2_time_zero,
                                   fmt::format("{}", timeline_.origin_ns).c_str(), true));
    if (Result<void> written = write_events(); !written) {
      return written;
    }
    write_local_definitions();
    write_definitions();
    check(OTF2_Archive_Close(archive_.release()));
    return {};
  }

 private:
  Result<void> write_events() {
    std::vector<std::vector<TimelineSlice>> by_rank(static_cast<std::size_t>(ranks_));
    for (const TimelineSlice& slice : timeline_.slices) {
      if (!slice.is_compute) {
        by_rank[static_cast<std::size_t>(slice.rank.value)].push_back(slice);
      }
    }
    check(OTF2_Archive_OpenEvtFiles(archive_.get()));
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      OTF2_EvtWriter* const writer =
          OTF2_Archive_GetEvtWriter(archive_.get(), static_cast<std::uint64_t>(rank));
      if (writer == nullptr) {
        fail();
      }
      const std::vector<TimelineSlice>& slices = by_rank[static_cast<std::size_t>(rank)];
      const std::vector<Otf2Function> functions = functions_of(slices);
      requests_ = otf2_requests(slices, functions);
      for (const Otf2Event& event : otf2_events(slices, functions)) {
        if (Result<void> written = write_event(writer, slices[event.slice], event); !written) {
          return written;
        }
      }
      check(OTF2_EvtWriter_GetNumberOfEvents(writer, &events_[static_cast<std::size_t>(rank)]));
      check(OTF2_Archive_CloseEvtWriter(archive_.get(), writer));
    }
    check(OTF2_Archive_CloseEvtFiles(archive_.get()));
    return {};
  }

  std::vector<Otf2Function> functions_of(const std::vector<TimelineSlice>& slices) const {
    std::vector<Otf2Function> functions;
    functions.reserve(slices.size());
    for (const TimelineSlice& slice : slices) {
      const CommOp& op = op_of(slice);
      const std::string& name = trace_.names.text(op.name);
      const bool may_exchange = is_point_to_point(op.kind) && is_mpi_function(name);
      functions.push_back({.returns_at_once = returns_at_once(name),
                           .exchange = may_exchange ? static_cast<std::uint32_t>(op.name) : 0});
    }
    return functions;
  }

  Result<void> write_event(OTF2_EvtWriter* writer, const TimelineSlice& slice, const Otf2Event& event) {
    using Kind = Otf2Event::Kind;
    const CommOp& op = op_of(slice);
    const std::string& name = trace_.names.text(op.name);
    const CommKind role = op.kind == CommKind::recv ? CommKind::send : op.kind;  // MPI_Sendrecv is both
    const std::uint32_t region =
        regions_.of({valid_utf8(otf2_region_name(op.kind, name, requests_[event.slice])), role});
    const std::optional<std::uint8_t> collective = otf2_collective(op.kind, name);
    const bool has_own_event = is_point_to_point(op.kind) || collective;
    if (event.kind == Kind::leave) {
      check(OTF2_EvtWriter_Leave(writer, nullptr, event.time, region));
      return {};
    }
    if (event.kind == Kind::enter || event.kind == Kind::post) {
      if (!has_own_event) {
        add_what_has_no_event(slice, event.kind == Kind::post);
      }
      check(OTF2_EvtWriter_Enter(writer, attributes_.get(), event.time, region));
      if (event.kind == Kind::enter && collective) {
        check(OTF2_EvtWriter_MpiCollectiveBegin(writer, nullptr, event.time));
      }
      return {};
    }
    if (!has_own_event) {
      return {};
    }
    return collective ? write_collective(writer, slice, event, *collective)
                      : write_message(writer, slice, event);
  }

  /// The row of its slice is the number of a request.
  Result<void> write_message(OTF2_EvtWriter* writer, const TimelineSlice& slice, const Otf2Event& event) {
    using Kind = Otf2Event::Kind;
    const CommOp& op = op_of(slice);
    const std::vector<Rank> pair = trace_.groups.members(op.group, slice.rank);
    if (pair.size() != 2) {
      return unknown_group(slice);
    }
    const bool sends = op.kind == CommKind::send;
    const auto [comm, peer] = comms_.of_message(op.group, slice.rank, pair[sends ? 1 : 0]);
    const auto bytes = static_cast<std::uint64_t>(((sends ? op.input : op.output) * op.dtype).value);
    OTF2_AttributeList* const list = attributes_.get();
    if (event.kind == Kind::start && !sends) {
      check(OTF2_EvtWriter_MpiIrecvRequest(writer, nullptr, event.time, event.slice));
      return {};
    }
    if (event.kind == Kind::complete && sends) {
      check(OTF2_EvtWriter_MpiIsendComplete(writer, nullptr, event.time, event.slice));
      return {};
    }
    add_attributes(slice);
    if (const Elements other = sends ? op.output : op.input; other.value != 0) {
      add_number(sends ? "output_bytes" : "input_bytes", (other * op.dtype).value);
    }
    if (event.kind == Kind::call) {
      check(sends ? OTF2_EvtWriter_MpiSend(writer, list, event.time, peer, comm, 0, bytes)
                  : OTF2_EvtWriter_MpiRecv(writer, list, event.time, peer, comm, 0, bytes));
    } else {
      check(sends ? OTF2_EvtWriter_MpiIsend(writer, list, event.time, peer, comm, 0, bytes, event.slice)
                  : OTF2_EvtWriter_MpiIrecv(writer, list, event.time, peer, comm, 0, bytes, event.slice));
    }
    return {};
  }

  Result<void> write_collective(OTF2_EvtWriter* writer, const TimelineSlice& slice, const Otf2Event& event,
                                std::uint8_t collective) {
    using Kind = Otf2Event::Kind;
    const CommOp& op = op_of(slice);
    if (event.kind == Kind::start) {
      check(OTF2_EvtWriter_NonBlockingCollectiveRequest(writer, nullptr, event.time, event.slice));
      return {};
    }
    const std::optional<std::uint32_t> comm = comms_.of_group(op.group, slice.rank);
    if (!comm) {
      return unknown_group(slice);
    }
    const auto root =
        op.root ? static_cast<std::uint32_t>(op.root->value) : std::uint32_t{OTF2_COLLECTIVE_ROOT_NONE};
    const auto sent = static_cast<std::uint64_t>((op.input * op.dtype).value);
    const auto received = static_cast<std::uint64_t>((op.output * op.dtype).value);
    add_attributes(slice);
    check(event.kind == Kind::call ? OTF2_EvtWriter_MpiCollectiveEnd(writer, attributes_.get(), event.time,
                                                                     collective, *comm, root, sent, received)
                                   : OTF2_EvtWriter_NonBlockingCollectiveComplete(
                                         writer, attributes_.get(), event.time, collective, *comm, root, sent,
                                         received, event.slice));
    return {};
  }

  /// A call of a kind that OTF2 lacks says everything when its function is entered.
  void add_what_has_no_event(const TimelineSlice& slice, bool returns_at_once) {
    const CommOp& op = op_of(slice);
    add_attributes(slice);
    add_text("op", name_of(op.kind));
    add_number("input_bytes", (op.input * op.dtype).value);
    add_number("output_bytes", (op.output * op.dtype).value);
    const std::vector<Rank> members = trace_.groups.members(op.group, slice.rank);
    if (op.root && op.root->value < static_cast<std::int64_t>(members.size())) {
      add_number("root", members[static_cast<std::size_t>(op.root->value)].value);
    }
    if (members.size() == 2) {  // of a one-sided call: no communicator, but its two ends
      add_text("group", fmt::format("{} {}", members[0].value, members[1].value));
    } else if (const std::optional<std::uint32_t> comm = comms_.of_group(op.group, slice.rank)) {
      check(OTF2_AttributeList_AddCommRef(attributes_.get(), attribute("group", OTF2_TYPE_COMM), *comm));
    }
    if (returns_at_once) {
      add_number("duration_ns", static_cast<std::int64_t>(slice.finished - slice.started));
    }
  }

  void add_attributes(const TimelineSlice& slice) {
    const CommEvent& event = trace_.streams[slice.stream].events[slice.row];
    const CommOp& op = trace_.op(event.op);
    add_text("dtype", name_of(op.dtype));
    add_text("phase", name_of(op.phase));
    add_text("tag", trace_.tags.text(op.tag));
    add_text("rule", trace_.rule(op.rule).name);
    add_text("name", trace_.names.text(op.name));
    if (const CommunicatorId id = trace_.groups.communicator(op.group); id != k_no_communicator) {
      add_text("communicator", text_of(id));
    }
    if (const Axis& axis = trace_.groups.axis(op.group); axis != Axis::unknown && axis != Axis::self) {
      add_text("axis", name_of(axis));
    }
    if (event.iteration != k_unknown_iteration) {
      add_number("iteration", event.iteration);
    }
    if (event.micro_batch != k_no_micro_batch) {
      add_number("micro_batch", event.micro_batch);
    }
    if (op.rounding.value != 0) {
      add_number("rounding_bytes", op.rounding.value);
    }
    for (const OpDetail& detail : op_details(trace_, op)) {
      if (detail.is_flag) {
        check(OTF2_AttributeList_AddUint8(attributes_.get(), attribute(detail.key, OTF2_TYPE_UINT8),
                                          detail.text == "true" ? 1 : 0));
      } else {
        add_text(detail.key, detail.text);
      }
    }
  }

  void add_text(std::string_view field, std::string_view text) {
    if (!text.empty()) {
      check(OTF2_AttributeList_AddStringRef(attributes_.get(), attribute(field, OTF2_TYPE_STRING),
                                            strings_.of(valid_utf8(text))));
    }
  }

  void add_number(std::string_view field, std::int64_t value) {
    check(OTF2_AttributeList_AddInt64(attributes_.get(), attribute(field, OTF2_TYPE_INT64), value));
  }

  std::uint32_t attribute(std::string_view field, OTF2_Type type) {
    return attribute_names_.of({std::string(k_otf2_attribute).append(field), type});
  }

  Result<void> unknown_group(const TimelineSlice& slice) const {
    return failure(
        fmt::format("OTF2 needs the ranks of every group; the trace does not tell those of {} of rank {}",
                    name_of(op_of(slice).kind), slice.rank.value));
  }

  /// Empty: all numbers are those of the archive.
  void write_local_definitions() {
    check(OTF2_Archive_OpenDefFiles(archive_.get()));
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      OTF2_DefWriter* const writer =
          OTF2_Archive_GetDefWriter(archive_.get(), static_cast<std::uint64_t>(rank));
      if (writer == nullptr) {
        fail();
      }
      check(OTF2_Archive_CloseDefWriter(archive_.get(), writer));
    }
    check(OTF2_Archive_CloseDefFiles(archive_.get()));
  }

  void write_definitions() {
    OTF2_GlobalDefWriter* const writer = OTF2_Archive_GetGlobalDefWriter(archive_.get());
    if (writer == nullptr) {
      fail();
    }
    std::uint64_t length = 0;
    for (const TimelineSlice& slice : timeline_.slices) {
      length = std::max(length, slice.finished);
    }
    check(OTF2_GlobalDefWriter_WriteClockProperties(writer, 1'000'000'000, 0, length,
                                                    OTF2_UNDEFINED_TIMESTAMP));
    const std::uint32_t machine = strings_.of("machine");
    const auto numbered = [&](std::string_view what, std::int64_t number) {
      return strings_.of(fmt::format("{} {}", what, number));
    };
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      numbered("rank", rank);
    }
    for (const Otf2Comms::Comm& comm : comms_.list()) {
      strings_.of(comm.name);
    }
    for (const RegionName& region : regions_.keys()) {
      strings_.of(region.name);
    }
    for (const AttributeName& name : attribute_names_.keys()) {
      strings_.of(name.name);
    }
    for (std::uint32_t row = 0; row < strings_.keys().size(); ++row) {
      check(OTF2_GlobalDefWriter_WriteString(writer, row, strings_.keys()[row].c_str()));
    }
    check(OTF2_GlobalDefWriter_WriteSystemTreeNode(writer, 0, machine, machine,
                                                   OTF2_UNDEFINED_SYSTEM_TREE_NODE));
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const auto self = static_cast<std::uint32_t>(rank);
      check(OTF2_GlobalDefWriter_WriteLocationGroup(writer, self, numbered("rank", rank),
                                                    OTF2_LOCATION_GROUP_TYPE_PROCESS, 0,
                                                    OTF2_UNDEFINED_LOCATION_GROUP));
      check(OTF2_GlobalDefWriter_WriteLocation(writer, self, numbered("rank", rank),
                                               OTF2_LOCATION_TYPE_CPU_THREAD, events_[self], self));
    }
    for (std::uint32_t row = 0; row < regions_.keys().size(); ++row) {
      const RegionName& region = regions_.keys()[row];
      const std::uint32_t name = strings_.of(region.name);
      check(OTF2_GlobalDefWriter_WriteRegion(writer, row, name, name, 0, role_of(region.kind),
                                             OTF2_PARADIGM_MPI, OTF2_REGION_FLAG_NONE, 0, 0, 0));
    }
    for (std::uint32_t row = 0; row < attribute_names_.keys().size(); ++row) {
      const AttributeName& name = attribute_names_.keys()[row];
      check(OTF2_GlobalDefWriter_WriteAttribute(writer, row, strings_.of(name.name), 0, name.type));
    }
    write_comms(writer);
  }

  void write_comms(OTF2_GlobalDefWriter* writer) {
    const std::vector<Otf2Comms::Comm>& comms = comms_.list();
    for (std::uint32_t row = 0; row < comms.size(); ++row) {
      std::vector<std::uint64_t> members;
      for (const Rank member : comms[row].members) {
        members.push_back(static_cast<std::uint64_t>(member.value));
      }
      const std::uint32_t name = strings_.of(comms[row].name);
      const auto count = static_cast<std::uint32_t>(members.size());
      if (row == Otf2Comms::k_all_ranks) {
        check(OTF2_GlobalDefWriter_WriteGroup(writer, row, name, OTF2_GROUP_TYPE_COMM_LOCATIONS,
                                              OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, count,
                                              members.data()));
      }
      check(OTF2_GlobalDefWriter_WriteGroup(
          writer, row + 1, name, members.empty() ? OTF2_GROUP_TYPE_COMM_SELF : OTF2_GROUP_TYPE_COMM_GROUP,
          OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, count, members.data()));
      check(OTF2_GlobalDefWriter_WriteComm(
          writer, row, name, row + 1,
          row == Otf2Comms::k_all_ranks || members.empty() ? OTF2_UNDEFINED_COMM : Otf2Comms::k_all_ranks,
          OTF2_COMM_FLAG_NONE));
    }
  }

  const CommOp& op_of(const TimelineSlice& slice) const {
    return trace_.op(trace_.streams[slice.stream].events[slice.row].op);
  }

  void check(OTF2_ErrorCode code) const {
    if (code != OTF2_SUCCESS) {
      fail();
    }
  }

  [[noreturn]] void fail() const {
    throw SystemError(
        fmt::format("cannot write the OTF2 archive in {}: {}", directory_.string(), messages_.first()));
  }

  const Trace& trace_;
  std::filesystem::path directory_;
  std::int64_t ranks_;
  Timeline timeline_;
  Otf2Messages messages_;
  std::unique_ptr<OTF2_Archive, ArchiveCloser> archive_;
  std::unique_ptr<OTF2_AttributeList, AttributesDeleter> attributes_;
  std::vector<std::uint64_t> events_;  // of each rank
  Numbers<std::string> strings_;
  Numbers<RegionName> regions_;
  std::vector<bool> requests_;  // of the calls of the rank that is written
  Numbers<AttributeName> attribute_names_;
  Otf2Comms comms_;
};

}  // namespace

Result<void> write_archive(const Trace& trace, const std::filesystem::path& directory) {
  const std::int64_t ranks = ranks_in(trace);
  if (ranks > k_most_ranks) {
    return failure(fmt::format("{} ranks are more than an OTF2 archive is written for (2^20)", ranks));
  }
  return Otf2Writer(trace, directory, ranks).write();
}

}  // namespace commlens::formats::otf2
