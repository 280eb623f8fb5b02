# cmake -P web_assets.cmake with SOURCE (the repository's web/), WORK (a folder of the build), OUTPUT (the C++ source to
# write), CHARTS (another, of the script of charts without a page), TOOLS (whether the tools of the tests are wanted too) and, where npm is there, NPM: bundles the page in WORK and writes it as OUTPUT. Where that fails (no network for
# the first `npm ci`, say) the report gets its tables only: OUTPUT and CHARTS then hold empty scripts and the plain style
# sheet, WORK/failed stands, and the build says so.
cmake_minimum_required(VERSION 3.25)

# Runs a command in WORK; on failure sets `failure` to what it said.
function(run_in_work)
  if(failure)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 ${ARGN}
                  WORKING_DIRECTORY ${WORK} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    set(failure "${command}\n${said}" PARENT_SCOPE)
  endif()
endfunction()

# Copies web/ (without what npm put there) so that several builds do not share a node_modules.
function(copy_sources)
  file(REMOVE_RECURSE ${WORK}/src ${WORK}/dist ${WORK}/failed)
  file(COPY ${SOURCE}/ DESTINATION ${WORK} PATTERN node_modules EXCLUDE PATTERN dist EXCLUDE)
endfunction()

# `npm ci`, where the last one was of another lock file or part of it.
function(install_packages)
  file(SHA256 ${SOURCE}/package-lock.json wanted)
  set(part "--omit=dev")
  if(TOOLS)
    set(part "--include=dev")
  endif()
  string(APPEND wanted " ${part}")
  set(installed "")
  if(EXISTS ${WORK}/node_modules/.installed)
    file(READ ${WORK}/node_modules/.installed installed)
  endif()
  if(NOT installed STREQUAL wanted)
    run_in_work(${NPM} ci ${part} --prefer-offline --fetch-retries=1 --loglevel=error)
    set(failure "${failure}" PARENT_SCOPE)
    if(NOT failure)
      file(WRITE ${WORK}/node_modules/.installed ${wanted})
    endif()
  endif()
endfunction()

# A C++ string literal of a file's bytes, in lines of 30 (adjacent literals are one).
function(literal file result)
  file(READ ${file} bytes HEX)
  string(REPEAT "[0-9a-f]" 60 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n\"" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  set(${result} "\"${bytes}\"" PARENT_SCOPE)
endfunction()

set(failure "")
set(script "")
set(charts "")
set(style ${SOURCE}/src/report.css)
if(NPM)
  copy_sources()
  install_packages()
  run_in_work(${NPM} run --silent bundle)
  if(failure)
    file(WRITE ${WORK}/failed "${failure}")
    message(WARNING "the page of `commlens report` was not built: reports of this program have their tables only.\n"
                    "To try again, mend this and run cmake and the build once more:\n${failure}")
  else()
    set(script ${WORK}/dist/report.js)
    set(charts ${WORK}/dist/charts.js)
    set(style ${WORK}/dist/report.css)
  endif()
endif()

set(script_literal "\"\"")
if(script)
  literal(${script} script_literal)
endif()
set(charts_literal "\"\"")
if(charts)
  literal(${charts} charts_literal)
endif()
literal(${style} style_literal)
file(WRITE ${OUTPUT} "#include \"commlens/report/web_assets.hpp\"

namespace commlens {
namespace {

constexpr char k_script[] =
${script_literal};
constexpr char k_style[] =
${style_literal};

}  // namespace

std::string_view web_script() { return {k_script, sizeof(k_script) - 1}; }
std::string_view web_style() { return {k_style, sizeof(k_style) - 1}; }
bool has_web_script() { return !web_script().empty(); }

}  // namespace commlens
")
file(WRITE ${CHARTS} "#include \"commlens/report/charts_script.hpp\"

namespace commlens {
namespace {

constexpr char k_charts[] =
${charts_literal};

}  // namespace

std::string_view charts_script() { return {k_charts, sizeof(k_charts) - 1}; }

}  // namespace commlens
")
