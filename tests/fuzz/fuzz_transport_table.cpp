// Tables of transports. What is accepted must be read back as the same table.
#include "commlens/base/check.hpp"
#include "commlens/transport/transport_table.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace commlens;
  const Result<TransportTable> table = parse_transport_table(as_text(bytes, size));
  if (!table) {
    COMMLENS_CHECK(!table.error().message.empty(), "an error says something");
    return 0;
  }
  const Result<TransportTable> again = parse_transport_table(transport_table_text(*table, "fuzz"));
  COMMLENS_CHECK(again && again->entries == table->entries, "a table survives writing");
  for (const std::int64_t message : {0, 1, 65'536}) {
    const std::size_t place = table->place_of(CommKind::all_reduce, Bytes{message}, 4);
    COMMLENS_CHECK(place <= table->entries.size(), "an entry fits, or none");
  }
  return 0;
}
