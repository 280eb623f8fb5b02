#include "tests/reproduce/figure_rows.hpp"

#include <fstream>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {

Json json_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

Json SharedPages::figure(const std::string& id) const { return json_of(file("figures/" + id + ".json")); }

const SharedPages& shared_pages() {
  static const test_support::ScratchDirectory scratch;
  static const SharedPages pages = [] {
    ReproduceRequest request;
    request.directory = scratch.path("paper");
    request.effort = ReproduceRequest::Effort::none;
    Result<ReproduceResult> result = reproduce(request);
    COMMLENS_CHECK(result.has_value(), "a new directory can be written");
    return SharedPages{request.directory, std::move(*result)};
  }();
  return pages;
}

}  // namespace commlens
