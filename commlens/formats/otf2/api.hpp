#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/formats/otf2/isolated.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

/// What libcommlens-otf2.so does. The library of OTF2 is linked there and nowhere else.
struct Otf2Api {
  /// Reads the archive of an anchor file ("traces.otf2"). Not for hostile files in one's own process.
  Result<void> (*read)(const std::filesystem::path& anchor, const RecordSink& sink);
  /// Writes traces.otf2, traces.def and traces/ into an empty directory. Fails on groups whose ranks are not
  /// known; throws SystemError when the disk does.
  Result<void> (*write)(const Trace& trace, const std::filesystem::path& directory);
};

/// The module's entry, `commlens_otf2_api`.
using Otf2ApiFunction = const Otf2Api* (*)();

/// Loads the module. Fails, saying where it was looked for, when this build has none.
Result<const Otf2Api*> load_otf2();

/// Fields that OTF2 has no place for are attributes of this name and the field's (docs/formats/calls.md).
constexpr std::string_view k_otf2_attribute = "commlens.";

/// The archive property that says what the times are: "measured", or "order only".
constexpr const char* k_otf2_times = "COMMLENS::TIMES";

/// The archive property with the nanoseconds on the trace's clock at timestamp 0.
constexpr const char* k_otf2_time_zero = "COMMLENS::TIME_ZERO_NS";

}  // namespace commlens::formats::otf2
