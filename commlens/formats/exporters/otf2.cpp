#include "commlens/formats/exporters/otf2.hpp"

#include "commlens/formats/otf2/otf2_api.hpp"

namespace commlens {

Result<void> write_otf2(const Trace& trace, const CallSelection& /*selection*/,
                        const std::filesystem::path& folder) {
  const Result<const Otf2Api*> api = load_otf2();
  if (!api) {
    return tl::unexpected(api.error());
  }
  return (*api)->write(trace, folder);
}

}  // namespace commlens
