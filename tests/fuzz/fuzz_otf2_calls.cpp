// Events and definitions of an OTF2 archive in any order and with any numbers: the part of the reader that is
// ours. The OTF2 library, which turns files into these, runs in a process of its own (archive_test.cpp
// damages files).
#include <optional>
#include <vector>

#include "commlens/formats/otf2/calls.hpp"
#include "commlens/formats/otf2/definitions.hpp"
#include "tests/fuzz/input_file.hpp"

namespace commlens {
namespace {

/// Numbers taken from the input, small ones more often.
class Bytes8 {
 public:
  explicit Bytes8(std::string_view text) : text_(text) {}
  bool empty() const { return text_.empty(); }
  std::uint8_t byte() {
    const std::uint8_t value = text_.empty() ? 0 : static_cast<std::uint8_t>(text_.front());
    text_.remove_prefix(text_.empty() ? 0 : 1);
    return value;
  }
  std::uint64_t number() {
    const std::uint8_t first = byte();
    if (first < 0xf0) {
      return first % 8;
    }
    std::uint64_t value = 0;
    for (int index = 0; index < 8; ++index) {
      value = value << 8U | byte();
    }
    return value;
  }
  std::uint32_t reference() { return static_cast<std::uint32_t>(number()); }

 private:
  std::string_view text_;
};

void define(Bytes8& input, formats::otf2::Otf2Definitions& definitions) {
  switch (input.byte() % 9) {
    case 0:
      return definitions.set_clock(input.number(), input.number());
    case 1:
      return definitions.add_string(input.reference(), input.byte() % 2 == 0 ? "MPI_Send" : "commlens.group");
    case 2:
      return definitions.add_location(input.number(), input.reference());
    case 3:
      return definitions.add_region(input.reference(), input.reference(), input.byte() % 2 == 0);
    case 4:
      return definitions.add_ranks({input.number(), input.number()});
    case 5:
      return definitions.add_group(input.reference(), {input.number(), input.number()},
                                   input.byte() % 2 == 0);
    case 6:
      return definitions.add_self_group(input.reference());
    case 7:
      return definitions.add_comm(input.reference(), input.reference(), input.reference());
    default:
      return definitions.add_attribute(input.reference(), input.reference());
  }
}

void happen(Bytes8& input, const formats::otf2::Otf2Definitions& definitions,
            formats::otf2::Otf2Calls& calls) {
  const std::int64_t time = definitions.ns(input.number());
  formats::CallRecord record;
  record.rank = 0;
  record.op = commlens::CommKind::send;
  record.group.ranks = definitions.members(input.reference(), Rank{0}).value_or(std::vector<Rank>());
  const std::uint8_t what = input.byte() % 8;
  if (what == 0) {
    calls.enter(time, definitions.is_call(input.reference()));
  } else if (what == 1) {
    calls.leave(time);
  } else if (what == 2) {
    calls.begin_collective(time);
  } else if (what == 3) {
    calls.call(time, record);
  } else if (what == 4) {
    calls.cancel(input.number());
  } else if (what == 5) {
    calls.start(time, input.number(), record);
  } else if (what == 6) {
    calls.start(time, input.number(), std::nullopt);
  } else {
    calls.complete(time, input.number(), input.byte() % 2 == 0 ? std::optional(record) : std::nullopt);
  }
}

}  // namespace
}  // namespace commlens

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  commlens::Bytes8 input(commlens::as_text(bytes, size));
  commlens::formats::otf2::Otf2Definitions definitions;
  for (int count = input.byte(); count > 0 && !input.empty(); --count) {
    commlens::define(input, definitions);
  }
  definitions.conclude();
  commlens::formats::CallBuilder builder("fuzz", "input");
  const commlens::formats::otf2::RecordSink sink{
      .add = [&](const commlens::formats::CallRecord& record) { builder.add_or_skip(record); },
      .skip = [](std::string_view, std::int64_t) {},
      .assume = [](std::string_view, std::int64_t) {}};
  commlens::formats::otf2::Otf2Calls calls(sink);
  while (!input.empty()) {
    commlens::happen(input, definitions, calls);
  }
  calls.finish();
  static_cast<void>(definitions.rank_of(0));
  static_cast<void>(builder.finish());
  return 0;
}
