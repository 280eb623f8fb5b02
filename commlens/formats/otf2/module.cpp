// libcommlens-otf2.so: the part of commlens that needs the OTF2 library, loaded by load_otf2 when it is
// wanted.
#include "commlens/formats/otf2/api.hpp"
#include "commlens/formats/otf2/reader.hpp"
#include "commlens/formats/otf2/writer.hpp"

extern "C" __attribute__((visibility("default"))) const commlens::Otf2Api* commlens_otf2_api() {
  static constexpr commlens::Otf2Api api = {.read = commlens::read_otf2_archive,
                                            .write = commlens::write_otf2_archive};
  return &api;
}
