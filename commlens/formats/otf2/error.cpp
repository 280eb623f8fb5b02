#include "commlens/formats/otf2/error.hpp"

#include <cstdarg>
#include <cstdio>

#include <fmt/format.h>
#include <otf2/otf2.h>

namespace commlens::formats::otf2 {
namespace {

// NOLINTNEXTLINE(readability-function-size): OTF2 says with how many arguments it is called
OTF2_ErrorCode keep_message(void* user, const char* /*file*/, std::uint64_t /*line*/,
                            const char* /*function*/, OTF2_ErrorCode code, const char* format,
                            va_list values) {
  char detail[256] = "";
  std::vsnprintf(detail, sizeof detail, format, values);
  static_cast<Otf2Messages*>(user)->add(
      fmt::format("{}{}{}", OTF2_Error_GetDescription(code), detail[0] == '\0' ? "" : ": ", detail));
  return code;
}

}  // namespace

Otf2Messages::Otf2Messages() { OTF2_Error_RegisterCallback(keep_message, this); }
Otf2Messages::~Otf2Messages() { OTF2_Error_RegisterCallback(nullptr, nullptr); }

}  // namespace commlens::formats::otf2
