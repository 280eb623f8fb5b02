#include "commlens/app/residuals.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/report/table_json.hpp"

namespace commlens {

std::string rendered_residuals(const Machine& machine, const std::vector<std::string>& lines,
                               const Table& table, Format format, const TextStyle& style) {
  return in_format(
      format,
      [&] {
        std::string text = fmt::format("{} ({})\n", machine.name, machine.title);
        for (const std::string& line : lines) {
          text += line + "\n";
        }
        return text + (table.rows().empty() ? "" : table.text_with_hidden(style));
      },
      [&] {
        return nlohmann::ordered_json(
            {{"schema", "commlens.calibrate/1"}, {"machine", machine.name}, {"rows", rows_json(table)}});
      },
      [&] { return table.csv(); });
}

std::string source_of_numbers(const std::string& source, const std::vector<std::string>& files) {
  std::string text = source;
  for (const std::string& file : source.empty() ? files : std::vector<std::string>()) {
    text += (text.empty() ? "" : ", ") + std::filesystem::path(file).filename().string();
  }
  return text;
}

}  // namespace commlens
