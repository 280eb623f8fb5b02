#include "commlens/app/report.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/output_place.hpp"
#include "commlens/app/report_input.hpp"
#include "commlens/app/version.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/table.hpp"
#include "commlens/base/units.hpp"
#include "commlens/report/documents/document_words.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/report/html.hpp"
#include "commlens/report/svg.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

/// Of a report of results alone.
std::string title_of_results(const ResultDocuments& documents) {
  if (documents.layouts || documents.scaling) {
    const SearchedOn& on = documents.layouts ? documents.layouts->on : documents.scaling->on;
    return fmt::format("Layouts of {} on {} of {}", on.model, devices_text(on.ranks), on.machine);
  }
  if (!documents.simulated) {
    return fmt::format("Measured calls of {} ranks over {}", documents.measured->ranks,
                       printable(documents.measured->transport));
  }
  return fmt::format("Simulated iteration of {} ranks on {}", with_commas(documents.simulated->ranks),
                     documents.simulated->machine);
}

std::string title_of(const ReportRequest& request, const FigureInput& input) {
  if (!request.title.empty()) {
    return printable(request.title);
  }
  if (input.all.empty()) {
    return title_of_results(input.documents);
  }
  if (input.all.size() == 2) {
    return fmt::format("Communication of {} beside {}", input.all[0].name, input.all[1].name);
  }
  return input.all.size() == 1
             ? fmt::format("Communication of {}", input.all[0].name)
             : fmt::format("Communication of {} and {} others", input.all[0].name, input.all.size() - 1);
}

std::string subtitle_of(const ReportMaterial& material) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " · ") + part; };
  for (const Side& side : material.sides) {
    // The settings of the first block say more.
    const bool is_short = side.trace.provenance.source == Source::simulated || material.sides.size() > 2;
    add(is_short ? fmt::format("{}: {}", printable(side.argument), name_of(side.trace.provenance.source))
                 : side.description());
  }
  const ResultDocuments& documents = material.input.documents;
  if (documents.layouts) {
    add(fmt::format("{}: layouts found by search", printable(documents.layouts->on.name)));
  }
  if (documents.scaling) {
    add(fmt::format("{}: scaling found by search", printable(documents.scaling->on.name)));
  }
  if (documents.simulated) {
    add(fmt::format("{}: simulated on {}", printable(documents.simulated->name),
                    printable(documents.simulated->machine)));
  }
  if (documents.measured) {
    add(fmt::format("{}: measured by bench", printable(documents.measured->name)));
  }
  return text;
}

/// The files that write_figures may write.
std::vector<std::string> figure_files(const std::string& directory) {
  std::vector<std::string> files = {(std::filesystem::path(directory) / "index.json").string()};
  for (const FigureEntry& entry : figure_entries()) {
    for (const std::string_view ending : {"json", "csv", "svg"}) {
      files.push_back((std::filesystem::path(directory) / fmt::format("{}.{}", entry.id, ending)).string());
    }
  }
  return files;
}

/// The charts of the figures that have one. What cannot be drawn is a warning: the data are there.
void write_charts(const std::filesystem::path& directory, const ReportPage& page, const Events& events) {
  std::vector<const Figure*> drawn;
  for (const MadeFigure& made : page.figures) {
    if (made.figure && has_chart(*made.figure)) {
      drawn.push_back(&*made.figure);
    }
  }
  if (drawn.empty()) {
    return;
  }
  const Result<SvgDrawer> drawer = SvgDrawer::open();
  if (!drawer) {
    events.warn(fmt::format("no SVG is written: {}", drawer.error().message));
    return;
  }
  Task task(events, "drawing figures", static_cast<std::int64_t>(drawn.size()));
  for (const Figure* const figure : drawn) {
    const Result<std::string> svg = drawer->draw(*figure);
    if (!svg) {
      events.warn(fmt::format("no SVG is written of {}", svg.error().message));
    } else if (!svg->empty()) {
      write_file_atomically(directory / fmt::format("{}.svg", figure->id), *svg);
    }
    task.add(1);
  }
}

}  // namespace

std::int64_t ReportPage::shown() const {
  return std::count_if(figures.begin(), figures.end(),
                       [](const MadeFigure& made) { return made.figure.has_value(); });
}

Result<ReportPage> report(const ReportRequest& request) {
  const Result<std::unique_ptr<ReportMaterial>> material = report_material(request);
  if (!material) {
    return tl::unexpected(material.error());
  }
  ReportPage page;
  {
    const Task task(request.events, "making figures", 0);
    page.figures = make_figures((*material)->input);
  }
  page.title = title_of(request, (*material)->input);
  page.html = report_html({page.title, subtitle_of(**material), fmt::format("commlens {}", k_version),
                           verdict_of((*material)->input)},
                          page.figures);
  return page;
}

void write_figures(const std::string& directory, const ReportPage& page, const Events& events) {
  const std::filesystem::path target = directory;
  std::error_code status;
  std::filesystem::create_directories(target, status);
  if (status) {
    throw SystemError(fmt::format("cannot make {}: {}", target.string(), status.message()));
  }
  nlohmann::ordered_json index = {{"schema", "commlens.figures/1"}, {"title", valid_utf8(page.title)}};
  index["figures"] = nlohmann::ordered_json::array();
  index["left_out"] = nlohmann::ordered_json::array();
  for (const MadeFigure& made : page.figures) {
    if (!made.figure) {
      index["left_out"].push_back(
          {{"id", made.entry->id}, {"reason", valid_utf8(made.figure.error().reason)}});
      continue;
    }
    index["figures"].push_back({{"id", made.entry->id},
                                {"title", made.entry->title},
                                {"kind", name_of(made.figure->kind)},
                                {"rows", made.figure->rows()}});
    write_file_atomically(target / fmt::format("{}.json", made.entry->id), figure_json(*made.figure));
    write_file_atomically(target / fmt::format("{}.csv", made.entry->id), figure_csv(*made.figure));
  }
  write_charts(target, page, events);
  write_file_atomically(target / "index.json", index.dump(1) + "\n");
}

Result<void> check_page_place(const std::string& file, const std::vector<std::string>& inputs, bool force) {
  if (Result<void> usable = check_output_place(file, inputs); !usable) {
    return usable;
  }
  std::error_code status;
  if (file == "-" || force || !std::filesystem::exists(file, status)) {
    return {};
  }
  if (!std::filesystem::is_regular_file(file, status)) {
    return {};  // a device or a pipe
  }
  constexpr std::size_t head_size = 1024;
  std::ifstream in(file, std::ios::binary);
  std::string head(head_size, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  if (head.empty() || is_report(head)) {
    return {};
  }
  return failure(fmt::format(
      "-o {}: exists and is no report of commlens; choose another name, or --force overwrites it", file));
}

Result<void> check_figures_place(const std::string& directory, const std::vector<std::string>& inputs) {
  std::error_code status;
  if (directory.empty()) {
    return {};
  }
  const std::vector<std::string> files = figure_files(directory);
  for (const std::string& file : files) {
    if (Result<void> apart = check_apart("--data", file, inputs); !apart) {
      return apart;
    }
  }
  if (!std::filesystem::exists(directory, status)) {
    return check_directory_place("--data", directory);
  }
  if (!std::filesystem::is_directory(directory, status)) {
    return failure(fmt::format("--data {}: is a file; give the name of a directory", directory));
  }
  return check_file_place("--data", files.front());
}

}  // namespace commlens
