#include "commlens/app/reproduce/pages.hpp"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "commlens/app/version.hpp"
#include "commlens/base/file.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/report/html.hpp"

namespace commlens::study {
namespace {

/// Rows of a table in Markdown; the files have all.
constexpr std::size_t k_most_markdown_rows = 60;

/// A bar or a line break would end a cell.
std::string cell_text(std::string text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  }
  return safe;
}

void append_markdown_table(std::string& out, const Figure& figure) {
  std::string names;
  std::string rule;
  std::vector<const FigureColumn*> shown;
  for (const FigureColumn& column : figure.columns) {
    if (column.in_table) {
      shown.push_back(&column);
      names += fmt::format("| {} ", cell_text(column.title));
      rule += std::holds_alternative<TextColumn>(column.values) ? "|---" : "|--:";
    }
  }
  out += fmt::format("{}|\n{}|\n", names, rule);
  for (std::size_t row = 0; row < std::min(figure.rows(), k_most_markdown_rows); ++row) {
    for (const FigureColumn* const column : shown) {
      out += fmt::format("| {} ", cell_text(column->cell(row)));
    }
    out += "|\n";
  }
  if (figure.rows() > k_most_markdown_rows) {
    out += fmt::format("\n{} of {} rows; all are in the file of the figure.\n", k_most_markdown_rows,
                       figure.rows());
  }
}

/// What the page draws of an item: its panels, the first with the item's caption and the last with its
/// notes.
std::vector<Figure> drawn(const Item& item) {
  if (item.panels.empty()) {
    return {item.whole};
  }
  std::vector<Figure> figures = item.panels;
  figures.front().caption = item.whole.caption;
  figures.back().notes = item.whole.notes;
  for (Figure& figure : figures) {
    figure.title =
        fmt::format("{}: {}", item.whole.title.substr(0, item.whole.title.find(':')), figure.title);
  }
  return figures;
}

}  // namespace

std::string page_html(const PageHead& head, const std::vector<MadeItem>& items) {
  std::vector<MadeFigure> figures;
  std::deque<FigureEntry> entries;  // figures point at them
  for (const MadeItem& made : items) {
    if (!made.item) {
      entries.push_back({made.entry->id, made.entry->title, made.entry->section, nullptr});
      figures.push_back({&entries.back(), tl::unexpected(made.item.error())});
      continue;
    }
    for (Figure& figure : drawn(*made.item)) {
      entries.push_back({made.entry->id, made.entry->title, made.entry->section, nullptr});
      figures.push_back({&entries.back(), std::move(figure)});
    }
  }
  ReportHead report{head.title, head.subtitle, fmt::format("commlens {} reproduce", k_version), {}};
  report.verdict.tone = head.holds ? ReportVerdict::Tone::good : ReportVerdict::Tone::neutral;
  report.verdict.sentences = {head.verdict};
  return report_html(report, figures);
}

std::string page_markdown(const PageHead& head, const std::vector<MadeItem>& items) {
  std::string out = fmt::format("# {}\n\n{}\n\n{}\n", head.title, head.subtitle, head.verdict);
  std::string_view section;
  for (const MadeItem& made : items) {
    if (made.entry->section != section) {
      section = made.entry->section;
      out += fmt::format("\n## {}\n", section);
    }
    out += fmt::format("\n### {}\n\n", made.entry->title);
    if (!made.item) {
      out += fmt::format("Not shown: {}.\n", made.item.error().reason);
      continue;
    }
    const Figure& whole = made.item->whole;
    out += fmt::format("{}\n\n", whole.caption);
    append_markdown_table(out, whole);
    out += whole.notes.empty() ? "" : "\n";
    for (const std::string& note : whole.notes) {
      out += fmt::format("* {}\n", note);
    }
  }
  return out;
}

void write_item(const std::filesystem::path& directory, const MadeItem& made, const SvgDrawer* drawer) {
  if (!made.item) {
    return;
  }
  const std::filesystem::path figures = directory / "figures";
  const Figure& whole = made.item->whole;
  write_file_atomically(figures / fmt::format("{}.json", whole.id), figure_json(whole));
  write_file_atomically(figures / fmt::format("{}.csv", whole.id), figure_csv(whole));
  if (drawer == nullptr) {
    return;
  }
  for (const Figure& figure : drawn(*made.item)) {
    if (const Result<std::string> svg = drawer->draw(figure); svg && !svg->empty()) {
      write_file_atomically(figures / fmt::format("{}.svg", figure.id), *svg);
    }
  }
}

}  // namespace commlens::study
