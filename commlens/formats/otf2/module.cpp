// libcommlens-otf2.so: the part of commlens that needs the OTF2 library, loaded by load_otf2 when it is
// wanted.
#include "commlens/formats/otf2/api.hpp"
#include "commlens/formats/otf2/reader.hpp"
#include "commlens/formats/otf2/writer.hpp"

extern "C" __attribute__((visibility("default"))) const commlens::formats::otf2::Otf2Api*
commlens_otf2_api() {
  static constexpr commlens::formats::otf2::Otf2Api api = {.read = commlens::formats::otf2::read_archive,
                                                           .write = commlens::formats::otf2::write_archive};
  return &api;
}
