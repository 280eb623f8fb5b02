#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/cli/report_input.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/report/html.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

constexpr const char* k_report_examples = R"(Examples:
  commlens report trace/
  commlens report case.yaml trace/ -o run.html --data figures/
  commlens report before/ after/ --title "Before and after"
  commlens report 1.3B --ranks 16 --zero 3)";

struct ReportFlags {
  ReportRequest request;
  std::string title;
  std::string file = "report.html";
  std::string data;
  bool force = false;
};

/// A file that is no report of ours stays.
Result<void> check_target(const ReportFlags& flags) {
  if (Result<void> usable = check_file_place("-o", flags.file); !usable) {
    return usable;
  }
  if (Result<void> apart = check_apart("-o", flags.file, flags.request.arguments); !apart) {
    return apart;
  }
  std::error_code status;
  if (flags.file == "-" || flags.force || !std::filesystem::exists(flags.file, status)) {
    return {};
  }
  if (!std::filesystem::is_regular_file(flags.file, status)) {
    return {};  // a device or a pipe
  }
  constexpr std::size_t head_size = 1024;
  std::ifstream in(flags.file, std::ios::binary);
  std::string head(head_size, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  if (head.empty() || is_report(head)) {
    return {};
  }
  return failure(
      fmt::format("-o {}: exists and is no report of commlens; choose another name, or --force overwrites it",
                  flags.file));
}

Result<void> check_folder(const ReportFlags& flags) {
  const std::string& folder = flags.data;
  std::error_code status;
  if (folder.empty()) {
    return {};
  }
  std::vector<std::string> files = {(std::filesystem::path(folder) / "index.json").string()};
  for (const FigureEntry& entry : figure_entries()) {
    for (const std::string_view ending : {"json", "csv"}) {
      files.push_back((std::filesystem::path(folder) / fmt::format("{}.{}", entry.id, ending)).string());
    }
  }
  for (const std::string& file : files) {
    if (Result<void> apart = check_apart("--data", file, flags.request.arguments); !apart) {
      return apart;
    }
  }
  if (!std::filesystem::exists(folder, status)) {
    return check_folder_place("--data", folder);
  }
  if (!std::filesystem::is_directory(folder, status)) {
    return failure(fmt::format("--data {}: is a file; give the name of a folder", folder));
  }
  return check_file_place("--data", files.front());
}

std::string title_of(const ReportFlags& flags, const FigureInput& input) {
  if (!flags.title.empty()) {
    return flags.title;
  }
  if (input.all.size() == 2) {
    return fmt::format("Communication of {} beside {}", input.all[0].name, input.all[1].name);
  }
  return input.all.size() == 1
             ? fmt::format("Communication of {}", input.all[0].name)
             : fmt::format("Communication of {} and {} others", input.all[0].name, input.all.size() - 1);
}

std::string subtitle_of(const std::vector<Side>& sides) {
  std::string text;
  for (const Side& side : sides) {
    text += (text.empty() ? "" : " · ") + side.description();
  }
  return text;
}

/// DIR/ID.json and DIR/ID.csv of every figure, and DIR/index.json that lists them.
void write_figures(const std::filesystem::path& folder, const std::vector<MadeFigure>& figures,
                   const std::string& title) {
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status) {
    throw SystemError(fmt::format("cannot make {}: {}", folder.string(), status.message()));
  }
  nlohmann::ordered_json index = {{"schema", "commlens.figures/1"}, {"title", valid_utf8(title)}};
  index["figures"] = nlohmann::ordered_json::array();
  index["left_out"] = nlohmann::ordered_json::array();
  for (const MadeFigure& made : figures) {
    if (!made.figure) {
      index["left_out"].push_back(
          {{"id", made.entry->id}, {"reason", valid_utf8(made.figure.error().reason)}});
      continue;
    }
    index["figures"].push_back({{"id", made.entry->id},
                                {"title", made.entry->title},
                                {"kind", name_of(made.figure->kind)},
                                {"rows", made.figure->rows()}});
    write_file_atomically(folder / fmt::format("{}.json", made.entry->id), figure_json(*made.figure));
    write_file_atomically(folder / fmt::format("{}.csv", made.entry->id), figure_csv(*made.figure));
  }
  write_file_atomically(folder / "index.json", index.dump(1) + "\n");
}

Result<ExitCode> report(Console& console, const ReportFlags& flags) {
  for (const Result<void>& checked : {check_target(flags), check_folder(flags)}) {
    if (!checked) {
      return tl::unexpected(checked.error());
    }
  }
  const Result<std::unique_ptr<ReportMaterial>> material = report_material(console, flags.request);
  if (!material) {
    return tl::unexpected(material.error());
  }
  std::vector<MadeFigure> figures;
  {
    const Progress progress(console, "making figures", 0);
    figures = make_figures((*material)->input);
  }
  const ReportHead head{title_of(flags, (*material)->input), subtitle_of((*material)->sides),
                        fmt::format("commlens {}", k_version)};
  const std::string page = report_html(head, figures);
  if (!flags.data.empty()) {
    write_figures(flags.data, figures, head.title);
  }
  write_result(console, {.format = "table", .file = flags.file}, page);
  if (flags.file != "-") {
    const auto shown = std::count_if(figures.begin(), figures.end(),
                                     [](const MadeFigure& made) { return made.figure.has_value(); });
    console.out << fmt::format("{}: {} of {} figures, {}\n", flags.file, shown, figures.size(),
                               to_text(Bytes{static_cast<std::int64_t>(page.size())}))
                << std::flush;
  }
  return ExitCode::done;
}

}  // namespace

Action declare_report(CLI::App& verb) {
  const auto flags = std::make_shared<ReportFlags>();
  verb.footer(k_report_examples);
  verb.add_option("TRACE|CONFIG", flags->request.arguments,
                  "Traces, files that import reads, and configurations (these are predicted); two are set "
                  "against each "
                  "other")
      ->required();
  verb.add_option("-o,--output", flags->file, "Write the page to this file; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  verb.add_option("--data", flags->data, "Write every figure as JSON and CSV into this folder")
      ->type_name("DIR");
  verb.add_option("--title", flags->title, "Title of the page")->type_name("TEXT");
  verb.add_flag("--force", flags->force, "Overwrite a file that is no report");
  verb.add_option("--iterations", flags->request.iterations, "Only these (-1 is initialisation)")
      ->type_name("FIRST-[LAST]");
  verb.add_option("--framework", flags->request.framework,
                  "Whose rules predict a configuration; NAME,NAME for one each")
      ->type_name("NAME");
  verb.add_option("--gpus-per-node", flags->request.ranks_per_node, "Split wire bytes by node")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24).description(""))
      ->type_name("N");
  flags->request.layout.declare(verb, false);
  return [flags](Console& console) { return report(console, *flags); };
}

}  // namespace commlens
