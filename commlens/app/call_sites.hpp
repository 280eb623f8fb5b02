#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "commlens/app/events.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What people are shown for the call sites of a trace. Those that `record --call-sites` wrote,
/// "FILE+0xOFFSET" of a return address, become "heat.c:42 main" with the debug information of FILE,
/// "libx.so+0x1234 solve" with its symbols alone, "libx.so+0x1234" without (SourceLines). Other texts stay as
/// they are. Warns of what keeps lines from being known: `trace` is the directory the sites are from, to see
/// that FILE is not newer. Code that was built with -g has lines.
std::map<NameId, std::string> shown_call_sites(const Trace& tables, const std::filesystem::path& trace,
                                               const Events& events);

}  // namespace commlens
