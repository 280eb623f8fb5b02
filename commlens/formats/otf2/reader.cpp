#include "commlens/formats/otf2/reader.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <otf2/otf2.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/otf2/api.hpp"
#include "commlens/formats/otf2/calls.hpp"
#include "commlens/formats/otf2/definitions.hpp"
#include "commlens/formats/otf2/error.hpp"
#include "commlens/formats/otf2/records.hpp"

namespace commlens::formats::otf2 {
namespace {

constexpr std::string_view k_no_rank = "event of a location that is no rank";
constexpr std::string_view k_inter_comm = "call on an inter-communicator";

/// Everything the callbacks of one reading share.
class Reading {
 public:
  explicit Reading(const RecordSink& sink) : sink_(sink) {}

  Otf2Definitions definitions;
  bool is_ours = false;
  std::int64_t time_zero_ns = 0;

  std::int64_t ns(OTF2_TimeStamp time) const { return definitions.ns(time) + time_zero_ns; }

  /// The calls of a location; null when it is no rank.
  Otf2Calls* calls(OTF2_LocationRef location) {
    if (const auto found = locations_.find(location); found != locations_.end()) {
      return &found->second.calls;
    }
    const std::optional<Rank> rank = definitions.rank_of(location);
    return rank ? &locations_.try_emplace(location, Location{*rank, Otf2Calls(sink_)}).first->second.calls
                : nullptr;
  }
  /// The rank of a location that has calls.
  Rank rank_of(OTF2_LocationRef location) const { return locations_.at(location).rank; }

  void skip(std::string_view reason) { sink_.skip(reason, 1); }

  void finish() {
    std::vector<OTF2_LocationRef> locations;
    for (const auto& [location, has] : locations_) {
      locations.push_back(location);
    }
    std::sort(locations.begin(), locations.end());
    for (const OTF2_LocationRef location : locations) {
      locations_.at(location).calls.finish();
    }
  }

  /// Sets the fields of `record` that attributes of ours carry.
  void take_attributes(OTF2_AttributeList* attributes, CallRecord& record) const {
    const std::uint32_t count = OTF2_AttributeList_GetNumberOfElements(attributes);
    for (std::uint32_t index = 0; index < count; ++index) {
      OTF2_AttributeRef self = 0;
      OTF2_Type type = OTF2_TYPE_NONE;
      OTF2_AttributeValue value{};
      if (OTF2_AttributeList_GetAttributeByIndex(attributes, index, &self, &type, &value) == OTF2_SUCCESS) {
        take_attribute(self, type, value, record);
      }
    }
  }

 private:
  struct Location {
    Rank rank;
    Otf2Calls calls;
  };

  void take_attribute(OTF2_AttributeRef self, OTF2_Type type, const OTF2_AttributeValue& value,
                      CallRecord& record) const {
    const CallField* const field = definitions.field(self);
    if (field == nullptr) {
      return;
    }
    const auto* const number = std::get_if<CallField::Number>(&field->member);
    const auto* const flag = std::get_if<CallField::Flag>(&field->member);
    if (number != nullptr && type == OTF2_TYPE_INT64) {
      record.** number = value.int64;
      record.iteration_unknown = record.iteration_unknown && field->key != "iteration";
    } else if (flag != nullptr && type == OTF2_TYPE_UINT8) {
      record.** flag = value.uint8 != 0;
    } else if (field->key == "group" && type == OTF2_TYPE_STRING) {
      record.group.ranks = ranks_in(definitions.text(value.stringRef));
    } else if (type == OTF2_TYPE_STRING) {
      field->set_text(record, definitions.text(value.stringRef));
    } else if (field->key == "group" && type == OTF2_TYPE_COMM) {
      record.group.ranks =
          definitions.members(value.commRef, Rank{record.rank.value_or(0)}).value_or(std::vector<Rank>());
    }
  }

  const RecordSink& sink_;
  std::unordered_map<OTF2_LocationRef, Location> locations_;  // those that are ranks
};

Reading& reading(void* user) { return *static_cast<Reading*>(user); }

// NOLINTBEGIN(readability-function-size): OTF2 says with how many arguments they are called

// ---- definitions

OTF2_CallbackCode on_clock(void* user, std::uint64_t resolution, std::uint64_t offset,
                           std::uint64_t /*length*/, std::uint64_t /*date*/) {
  reading(user).definitions.set_clock(resolution, offset);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_string(void* user, OTF2_StringRef self, const char* text) {
  reading(user).definitions.add_string(self, text == nullptr ? "" : text);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_location(void* user, OTF2_LocationRef self, OTF2_StringRef /*name*/,
                              OTF2_LocationType /*type*/, std::uint64_t /*events*/,
                              OTF2_LocationGroupRef group) {
  reading(user).definitions.add_location(self, group);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_region(void* user, OTF2_RegionRef self, OTF2_StringRef name,
                            OTF2_StringRef /*canonical*/, OTF2_StringRef /*description*/,
                            OTF2_RegionRole /*role*/, OTF2_Paradigm paradigm, OTF2_RegionFlag /*flags*/,
                            OTF2_StringRef /*file*/, std::uint32_t /*begin*/, std::uint32_t /*end*/) {
  reading(user).definitions.add_region(self, name, paradigm == OTF2_PARADIGM_MPI);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_group(void* user, OTF2_GroupRef self, OTF2_StringRef /*name*/, OTF2_GroupType type,
                           OTF2_Paradigm paradigm, OTF2_GroupFlag flags, std::uint32_t count,
                           const std::uint64_t* members) {
  if (paradigm != OTF2_PARADIGM_MPI) {
    return OTF2_CALLBACK_SUCCESS;
  }
  std::vector<std::uint64_t> list(members, members + count);
  if (type == OTF2_GROUP_TYPE_COMM_LOCATIONS) {
    reading(user).definitions.add_ranks(std::move(list));
  } else if (type == OTF2_GROUP_TYPE_COMM_GROUP) {
    reading(user).definitions.add_group(self, std::move(list), (flags & OTF2_GROUP_FLAG_GLOBAL_MEMBERS) != 0);
  } else if (type == OTF2_GROUP_TYPE_COMM_SELF) {
    reading(user).definitions.add_self_group(self);
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_comm(void* user, OTF2_CommRef self, OTF2_StringRef name, OTF2_GroupRef group,
                          OTF2_CommRef /*parent*/, OTF2_CommFlag /*flags*/) {
  reading(user).definitions.add_comm(self, group, name);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_inter_comm(void* user, OTF2_CommRef self, OTF2_StringRef /*name*/, OTF2_GroupRef /*a*/,
                                OTF2_GroupRef /*b*/, OTF2_CommRef /*common*/, OTF2_CommFlag /*flags*/) {
  reading(user).definitions.add_inter_comm(self);
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_attribute(void* user, OTF2_AttributeRef self, OTF2_StringRef name,
                               OTF2_StringRef /*description*/, OTF2_Type /*type*/) {
  reading(user).definitions.add_attribute(self, name);
  return OTF2_CALLBACK_SUCCESS;
}

// ---- events

/// The message as a record, or nothing (counted) when it cannot be one.
std::optional<CallRecord> taken(Reading& all, OTF2_LocationRef location, const Otf2Message& message,
                                OTF2_AttributeList* attributes) {
  if (all.definitions.is_inter_comm(message.comm)) {
    all.skip(k_inter_comm);
    return std::nullopt;
  }
  CallRecord record = record_of(all.definitions, all.rank_of(location), message, all.is_ours);
  all.take_attributes(attributes, record);
  return record;
}

std::optional<CallRecord> taken(Reading& all, OTF2_LocationRef location, const Otf2Collective& collective,
                                OTF2_AttributeList* attributes) {
  if (all.definitions.is_inter_comm(collective.comm)) {
    all.skip(k_inter_comm);
    return std::nullopt;
  }
  std::optional<CallRecord> record =
      record_of(all.definitions, all.rank_of(location), collective, all.is_ours);
  if (!record) {
    all.skip("collective that moves no data of the program");
    return std::nullopt;
  }
  all.take_attributes(attributes, *record);
  return record;
}

OTF2_CallbackCode on_enter(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                           OTF2_AttributeList* attributes, OTF2_RegionRef region) {
  Reading& all = reading(user);
  if (Otf2Calls* const calls = all.calls(location)) {
    calls->enter(all.ns(time), all.definitions.is_call(region));
    CallRecord record;
    record.rank = all.rank_of(location).value;
    record.iteration_unknown = true;
    record.group.is_given = true;
    all.take_attributes(attributes, record);
    if (!record.op.empty()) {  // one of ours that OTF2 has no event for
      calls->call(all.ns(time), std::move(record));
    }
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_leave(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                           OTF2_AttributeList* /*attributes*/, OTF2_RegionRef /*region*/) {
  if (Otf2Calls* const calls = reading(user).calls(location)) {
    calls->leave(reading(user).ns(time));
  }
  return OTF2_CALLBACK_SUCCESS;
}

/// Where a location's calls are, or null (counted).
Otf2Calls* calls_or_skip(Reading& all, OTF2_LocationRef location) {
  Otf2Calls* const calls = all.calls(location);
  if (calls == nullptr) {
    all.skip(k_no_rank);
  }
  return calls;
}

OTF2_CallbackCode on_message(Reading& all, OTF2_LocationRef location, OTF2_TimeStamp time,
                             OTF2_AttributeList* attributes, const Otf2Message& message) {
  if (Otf2Calls* const calls = calls_or_skip(all, location)) {
    if (std::optional<CallRecord> record = taken(all, location, message, attributes)) {
      calls->call(all.ns(time), std::move(*record));
    }
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_send(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                          OTF2_AttributeList* attributes, std::uint32_t receiver, OTF2_CommRef comm,
                          std::uint32_t /*tag*/, std::uint64_t length) {
  return on_message(reading(user), location, time, attributes, {true, receiver, comm, length, "MPI_Send"});
}

OTF2_CallbackCode on_recv(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                          OTF2_AttributeList* attributes, std::uint32_t sender, OTF2_CommRef comm,
                          std::uint32_t /*tag*/, std::uint64_t length) {
  return on_message(reading(user), location, time, attributes, {false, sender, comm, length, "MPI_Recv"});
}

OTF2_CallbackCode on_isend(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                           OTF2_AttributeList* attributes, std::uint32_t receiver, OTF2_CommRef comm,
                           std::uint32_t /*tag*/, std::uint64_t length, std::uint64_t request) {
  Reading& all = reading(user);
  if (Otf2Calls* const calls = calls_or_skip(all, location)) {
    if (auto record =
            taken(all, location, Otf2Message{true, receiver, comm, length, "MPI_Isend"}, attributes)) {
      calls->start(all.ns(time), request, std::move(record));
    }
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_irecv(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                           OTF2_AttributeList* attributes, std::uint32_t sender, OTF2_CommRef comm,
                           std::uint32_t /*tag*/, std::uint64_t length, std::uint64_t request) {
  Reading& all = reading(user);
  if (Otf2Calls* const calls = calls_or_skip(all, location)) {
    if (auto record =
            taken(all, location, Otf2Message{false, sender, comm, length, "MPI_Irecv"}, attributes)) {
      calls->complete(all.ns(time), request, std::move(record));
    } else {
      calls->cancel(request);
    }
  }
  return OTF2_CALLBACK_SUCCESS;
}

/// A receive or a collective of which only the request is known yet.
OTF2_CallbackCode on_request(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                             OTF2_AttributeList* /*attributes*/, std::uint64_t request) {
  if (Otf2Calls* const calls = calls_or_skip(reading(user), location)) {
    calls->start(reading(user).ns(time), request, std::nullopt);
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_send_complete(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                                   OTF2_AttributeList* /*attributes*/, std::uint64_t request) {
  if (Otf2Calls* const calls = reading(user).calls(location)) {
    calls->complete(reading(user).ns(time), request, std::nullopt);
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_cancelled(OTF2_LocationRef location, OTF2_TimeStamp /*time*/, void* user,
                               OTF2_AttributeList* /*attributes*/, std::uint64_t request) {
  if (Otf2Calls* const calls = reading(user).calls(location)) {
    calls->cancel(request);
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_collective_begin(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                                      OTF2_AttributeList* /*attributes*/) {
  if (Otf2Calls* const calls = reading(user).calls(location)) {
    calls->begin_collective(reading(user).ns(time));
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_collective_end(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                                    OTF2_AttributeList* attributes, OTF2_CollectiveOp op, OTF2_CommRef comm,
                                    std::uint32_t root, std::uint64_t sent, std::uint64_t received) {
  Reading& all = reading(user);
  if (Otf2Calls* const calls = calls_or_skip(all, location)) {
    if (auto record = taken(all, location, Otf2Collective{op, comm, root, sent, received}, attributes)) {
      calls->call(all.ns(time), std::move(*record));
    }
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_collective_complete(OTF2_LocationRef location, OTF2_TimeStamp time, void* user,
                                         OTF2_AttributeList* attributes, OTF2_CollectiveOp op,
                                         OTF2_CommRef comm, std::uint32_t root, std::uint64_t sent,
                                         std::uint64_t received, std::uint64_t request) {
  Reading& all = reading(user);
  if (Otf2Calls* const calls = calls_or_skip(all, location)) {
    if (auto record = taken(all, location, Otf2Collective{op, comm, root, sent, received}, attributes)) {
      calls->complete(all.ns(time), request, std::move(record));
    } else {
      calls->cancel(request);
    }
  }
  return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_one_sided(OTF2_LocationRef /*location*/, OTF2_TimeStamp /*time*/, void* user,
                               OTF2_AttributeList* /*attributes*/, OTF2_RmaWinRef /*window*/,
                               std::uint32_t /*remote*/, std::uint64_t /*bytes*/,
                               std::uint64_t /*matching*/) {
  reading(user).skip("one-sided access");
  return OTF2_CALLBACK_SUCCESS;
}

// NOLINTEND(readability-function-size)

// ---- the library's readers

struct ReaderCloser {
  void operator()(OTF2_Reader* reader) const { OTF2_Reader_Close(reader); }
};
using Reader = std::unique_ptr<OTF2_Reader, ReaderCloser>;

std::string property(OTF2_Reader* reader, const char* name) {
  char* text = nullptr;
  if (OTF2_Reader_GetProperty(reader, name, &text) != OTF2_SUCCESS || text == nullptr) {
    return {};
  }
  std::string copy = text;
  std::free(text);
  return copy;
}

bool read_definitions(OTF2_Reader* reader, Reading& all) {
  OTF2_GlobalDefReader* const definitions = OTF2_Reader_GetGlobalDefReader(reader);
  OTF2_GlobalDefReaderCallbacks* const callbacks = OTF2_GlobalDefReaderCallbacks_New();
  OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(callbacks, on_clock);
  OTF2_GlobalDefReaderCallbacks_SetStringCallback(callbacks, on_string);
  OTF2_GlobalDefReaderCallbacks_SetLocationCallback(callbacks, on_location);
  OTF2_GlobalDefReaderCallbacks_SetRegionCallback(callbacks, on_region);
  OTF2_GlobalDefReaderCallbacks_SetGroupCallback(callbacks, on_group);
  OTF2_GlobalDefReaderCallbacks_SetCommCallback(callbacks, on_comm);
  OTF2_GlobalDefReaderCallbacks_SetInterCommCallback(callbacks, on_inter_comm);
  OTF2_GlobalDefReaderCallbacks_SetAttributeCallback(callbacks, on_attribute);
  std::uint64_t count = 0;
  const bool is_read =
      definitions != nullptr &&
      OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, &all) == OTF2_SUCCESS &&
      OTF2_Reader_ReadAllGlobalDefinitions(reader, definitions, &count) == OTF2_SUCCESS;
  OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
  if (is_read) {
    OTF2_Reader_CloseGlobalDefReader(reader, definitions);
    all.definitions.conclude();
  }
  return is_read;
}

/// Local definitions map the numbers that a location uses to those of all.
void open_locations(OTF2_Reader* reader, const Otf2Definitions& definitions) {
  for (const std::uint64_t location : definitions.locations()) {
    OTF2_Reader_SelectLocation(reader, location);
  }
  const bool has_local = OTF2_Reader_OpenDefFiles(reader) == OTF2_SUCCESS;
  OTF2_Reader_OpenEvtFiles(reader);
  for (const std::uint64_t location : definitions.locations()) {
    if (OTF2_DefReader* const local = has_local ? OTF2_Reader_GetDefReader(reader, location) : nullptr) {
      std::uint64_t count = 0;
      OTF2_Reader_ReadAllLocalDefinitions(reader, local, &count);
      OTF2_Reader_CloseDefReader(reader, local);
    }
    OTF2_Reader_GetEvtReader(reader, location);
  }
  if (has_local) {
    OTF2_Reader_CloseDefFiles(reader);
  }
}

OTF2_GlobalEvtReaderCallbacks* event_callbacks() {
  OTF2_GlobalEvtReaderCallbacks* const callbacks = OTF2_GlobalEvtReaderCallbacks_New();
  OTF2_GlobalEvtReaderCallbacks_SetEnterCallback(callbacks, on_enter);
  OTF2_GlobalEvtReaderCallbacks_SetLeaveCallback(callbacks, on_leave);
  OTF2_GlobalEvtReaderCallbacks_SetMpiSendCallback(callbacks, on_send);
  OTF2_GlobalEvtReaderCallbacks_SetMpiRecvCallback(callbacks, on_recv);
  OTF2_GlobalEvtReaderCallbacks_SetMpiIsendCallback(callbacks, on_isend);
  OTF2_GlobalEvtReaderCallbacks_SetMpiIsendCompleteCallback(callbacks, on_send_complete);
  OTF2_GlobalEvtReaderCallbacks_SetMpiIrecvRequestCallback(callbacks, on_request);
  OTF2_GlobalEvtReaderCallbacks_SetMpiIrecvCallback(callbacks, on_irecv);
  OTF2_GlobalEvtReaderCallbacks_SetMpiRequestCancelledCallback(callbacks, on_cancelled);
  OTF2_GlobalEvtReaderCallbacks_SetMpiCollectiveBeginCallback(callbacks, on_collective_begin);
  OTF2_GlobalEvtReaderCallbacks_SetMpiCollectiveEndCallback(callbacks, on_collective_end);
  OTF2_GlobalEvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(callbacks, on_request);
  OTF2_GlobalEvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(callbacks, on_collective_complete);
  OTF2_GlobalEvtReaderCallbacks_SetRmaPutCallback(callbacks, on_one_sided);
  OTF2_GlobalEvtReaderCallbacks_SetRmaGetCallback(callbacks, on_one_sided);
  return callbacks;
}

bool read_events(OTF2_Reader* reader, Reading& all) {
  OTF2_GlobalEvtReader* const events = OTF2_Reader_GetGlobalEvtReader(reader);
  OTF2_GlobalEvtReaderCallbacks* const callbacks = event_callbacks();
  std::uint64_t count = 0;
  const bool is_read =
      events != nullptr &&
      OTF2_Reader_RegisterGlobalEvtCallbacks(reader, events, callbacks, &all) == OTF2_SUCCESS &&
      OTF2_Reader_ReadAllGlobalEvents(reader, events, &count) == OTF2_SUCCESS;
  OTF2_GlobalEvtReaderCallbacks_Delete(callbacks);
  if (events != nullptr) {
    OTF2_Reader_CloseGlobalEvtReader(reader, events);
  }
  OTF2_Reader_CloseEvtFiles(reader);
  return is_read;
}

}  // namespace

Result<void> read_archive(const std::filesystem::path& anchor, const RecordSink& sink) {
  const Otf2Messages messages;
  const Reader reader(OTF2_Reader_Open(anchor.c_str()));
  if (!reader || OTF2_Reader_SetSerialCollectiveCallbacks(reader.get()) != OTF2_SUCCESS) {
    return failure(fmt::format("the OTF2 library cannot open it: {}", messages.first()));
  }
  const std::string times = property(reader.get(), k_otf2_times);
  const Result<std::int64_t> zero = parse_integer(property(reader.get(), k_otf2_time_zero));
  const bool has_times = times != "order only";
  const RecordSink untimed{.add =
                               [&](const CallRecord& record) {
                                 CallRecord copy = record;
                                 copy.start_ns = copy.duration_ns = std::nullopt;
                                 sink.add(copy);
                               },
                           .skip = sink.skip,
                           .assume = sink.assume};
  Reading all(has_times ? sink : untimed);
  all.is_ours = !times.empty();
  all.time_zero_ns = zero.value_or(0);
  if (!read_definitions(reader.get(), all)) {
    return failure(fmt::format("its definitions cannot be read: {}", messages.first()));
  }
  open_locations(reader.get(), all.definitions);
  if (!all.definitions.knows_ranks()) {
    sink.assume("rank not reported, numbered by file or process",
                static_cast<std::int64_t>(all.definitions.locations().size()));
  }
  if (!read_events(reader.get(), all)) {
    return failure(fmt::format("its events cannot be read: {}", messages.first()));
  }
  all.finish();
  return {};
}

}  // namespace commlens::formats::otf2
