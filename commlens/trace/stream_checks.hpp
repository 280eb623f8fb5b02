#pragma once
#include <string>

#include "commlens/trace/call_state.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/stream_layout.hpp"

// What readers of a stream's file ask of its header and records.
namespace commlens {

/// What is wrong with the header of the file of `entry`; empty: nothing.
std::string fault_of(const StreamHeader& header, const StreamEntry& entry);

/// Whether the fields of a call are none that a writer gives.
bool is_impossible(const StreamRecord& record);

/// In version 1 the first row has the number 0. A record of zeros would be its call at time 0, of no length,
/// in micro-batch 0: it is assumed to be a part of the file that was lost.
StreamRecord as_version_2(StreamRecord record);

/// When the call was made; precondition: it has a time.
Times times_of(const StreamRecord& record);

/// Whether it is the record of a call under way that a device is known to have begun.
bool is_on_device(const StreamRecord& record);

CallState state_of(const StreamRecord& record);

}  // namespace commlens
