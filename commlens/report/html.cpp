#include "commlens/report/html.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/table.hpp"
#include "commlens/report/columns.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/report/figures/formulas_figure.hpp"
#include "commlens/report/web_assets.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_fixed_space = "\u00a0";  // no line ends at it
constexpr std::string_view k_marker = "<meta name=\"generator\" content=\"commlens report/1\">";
/// Content security policy: a page may load nothing. Its script and style are inline; saved pictures are
/// blobs.
constexpr std::string_view k_policy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'";

/// "What is communicated" -> "what-is-communicated".
std::string anchor_of(std::string_view title) {
  std::string anchor;
  for (const char c : title) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_word = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (is_word) {
      anchor += lower;
    } else if (!anchor.empty() && anchor.back() != '-') {
      anchor += '-';
    }
  }
  return anchor;
}

/// JSON that is safe inside a <script>: no tag can begin in it.
std::string without_tags(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void append_definitions(std::string& out, const Figure& figure) {
  std::string links;
  for (const std::string& id : figure.formulas) {
    const auto found = std::find_if(formulas().begin(), formulas().end(),
                                    [&](const Formula& formula) { return formula.id == id; });
    if (found != formulas().end()) {
      links += fmt::format("{}<a href=\"#formula-{}\">{}</a>", links.empty() ? "" : ", ", id,
                           html_text(found->title));
    }
  }
  if (!links.empty()) {
    out += fmt::format("<p class=\"definitions\">Definitions: {}</p>\n", links);
  }
}

void append_links(std::string& out, const std::vector<PageLink>& links) {
  if (links.empty()) {
    return;
  }
  out += "<p class=\"pages\">";
  for (const PageLink& link : links) {
    out += fmt::format("<a href=\"{}\">{}</a>\n", html_text(link.address), html_text(link.text));
  }
  out += "</p>\n";
}

bool has_option(const Figure& figure, std::string_view name) {
  return std::any_of(figure.options.begin(), figure.options.end(),
                     [&](const auto& option) { return option.first == name; });
}

void append_figure(std::string& out, const Figure& figure) {
  const bool has_chart = figure.kind != FigureKind::table && figure.rows() > 0;
  const std::string title = html_text(figure.title);
  out += fmt::format("<div class=\"block\">\n<h3 id=\"{}\">{}</h3>\n<figure class=\"figure\"{}>\n", figure.id,
                     title, has_chart ? fmt::format(" data-figure=\"{}\"", figure.id) : "");
  out +=
      figure.caption.empty() ? "" : fmt::format("<figcaption>{}</figcaption>\n", html_text(figure.caption));
  if (has_chart) {
    out += fmt::format(
        "<div class=\"chart\" role=\"img\" aria-label=\"{}: chart of the table below\"></div>\n", title);
    out +=
        fmt::format("<details class=\"table\"{}><summary>Table</summary>\n", has_web_script() ? "" : " open");
  }
  if (has_option(figure, "facts")) {
    append_facts(out, figure);
  } else {
    append_table(out, figure);
  }
  out += has_chart ? "</details>\n" : "";
  for (const std::string& note : figure.notes) {
    out += fmt::format("<p class=\"note\">{}</p>\n", html_text(note));
  }
  append_links(out, figure.links);
  append_definitions(out, figure);
  out += "</figure>\n</div>\n";
}

/// Entries of one section, in order.
struct Section {
  std::string_view title;
  std::string anchor;  // as no figure has it
  std::vector<const MadeFigure*> figures;
};

/// The title as an anchor, longer where a figure of the page has that id.
std::string free_anchor(std::string_view title, const std::vector<MadeFigure>& figures) {
  std::string anchor = anchor_of(title);
  while (std::ranges::any_of(
      figures, [&](const MadeFigure& made) { return made.figure && made.figure->id == anchor; })) {
    anchor += "-section";
  }
  return anchor;
}

std::vector<Section> sections_of(const std::vector<MadeFigure>& figures) {
  std::vector<Section> sections;
  for (const MadeFigure& made : figures) {
    if (sections.empty() || sections.back().title != made.entry->section) {
      sections.push_back({made.entry->section, free_anchor(made.entry->section, figures), {}});
    }
    sections.back().figures.push_back(&made);
  }
  return sections;
}

void append_contents(std::string& out, const std::vector<Section>& sections) {
  out += "<nav class=\"toc\" aria-label=\"Contents\">\n<ul>\n";
  for (const Section& section : sections) {
    out += fmt::format("<li><a href=\"#{}\">{}</a>", section.anchor, html_text(section.title));
    if (section.figures.size() == 1 && section.figures.front()->entry->title == section.title) {
      out += "</li>\n";
      continue;
    }
    out += "\n<ul>\n";
    for (const MadeFigure* made : section.figures) {
      if (made->figure) {
        out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", made->figure->id,
                           html_text(made->figure->title));
      }
    }
    out += "</ul></li>\n";
  }
  out += "</ul>\n</nav>\n";
}

void append_section(std::string& out, const Section& section) {
  out += fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n", section.anchor,
                     html_text(section.title));
  std::string absent;
  for (const MadeFigure* made : section.figures) {
    if (made->figure) {
      append_figure(out, *made->figure);
    } else {
      absent += fmt::format("<li>{}: {}.</li>\n", html_text(made->entry->title),
                            html_text(made->figure.error().reason));
    }
  }
  if (!absent.empty()) {
    out += fmt::format("<div class=\"absent\">\n<p>Not shown, and why:</p>\n<ul>\n{}</ul>\n</div>\n", absent);
  }
  out += "</section>\n";
}

std::string_view tone_class(ReportVerdict::Tone tone) {
  return tone == ReportVerdict::Tone::good ? " good" : tone == ReportVerdict::Tone::bad ? " bad" : "";
}

void append_verdict(std::string& out, const ReportVerdict& verdict) {
  if (verdict.sentences.empty()) {
    return;
  }
  out += fmt::format("<div class=\"verdict{}\">\n", tone_class(verdict.tone));
  for (const std::string& sentence : verdict.sentences) {
    std::string text = shown_foreign(sentence);
    for (std::size_t at = text.find(" %"); at != std::string::npos; at = text.find(" %", at)) {
      text.replace(at, 1, k_fixed_space);
    }
    out += fmt::format("<p>{}</p>\n", html_text(text));
  }
  out += "</div>\n";
}

std::string page_data(const ReportHead& head, const std::vector<MadeFigure>& figures) {
  std::string json = "{\"schema\":\"commlens.report/1\",\"title\":";
  append_json_string(json, head.title);
  json += ",\"figures\":{";
  bool first = true;
  for (const MadeFigure& made : figures) {
    if (!made.figure || made.figure->kind == FigureKind::table) {
      continue;
    }
    const Figure& figure = *made.figure;
    json += fmt::format("{}\"{}\":{{\"kind\":\"{}\",\"title\":", first ? "" : ",\n", figure.id,
                        name_of(figure.kind));
    first = false;
    append_json_string(json, figure.title);
    json += ",\"caption\":";
    append_json_string(json, figure.caption);
    json += ",\"options\":";
    append_options_json(json, figure.options);
    json += ",\"columns\":[";
    for (std::size_t at = 0; at < figure.columns.size(); ++at) {
      json += at == 0 ? "" : ",\n";
      append_column_json(json, figure.columns[at]);
    }
    json += "]}";
  }
  return without_tags(json + "}}");
}

}  // namespace

std::string report_html(const ReportHead& head, const std::vector<MadeFigure>& figures) {
  const std::string title = html_text(head.title);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{}\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n",
      k_marker, k_policy, title);
  out += web_style();
  out += fmt::format(
      "\n</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
      "report</a>\n<header>\n<h1>{}</h1>\n"
      "<p class=\"subtitle\">{}</p>\n",
      title, html_text(head.subtitle));
  append_links(out, head.links);
  append_verdict(out, head.verdict);
  out += "</header>\n";
  const std::vector<Section> sections = sections_of(figures);
  append_contents(out, sections);
  out += "<main id=\"main\">\n";
  out +=
      has_web_script()
          ? "<noscript><p class=\"note\">Charts need a script; the tables have every number.</p></noscript>\n"
          : "<p class=\"note\">This build of commlens has no charts (npm was missing when it was made); "
            "every "
            "figure is a table.</p>\n";
  for (const Section& section : sections) {
    append_section(out, section);
  }
  out += fmt::format("</main>\n<footer>\n<p>Made by {}.</p>\n</footer>\n", html_text(head.producer));
  out += fmt::format("<script type=\"application/json\" id=\"commlens-data\">{}</script>\n",
                     page_data(head, figures));
  if (has_web_script()) {
    out += "<script>";
    out += web_script();
    out += "</script>\n";
  }
  return out + "</body>\n</html>\n";
}

bool is_report(std::string_view head_of_file) {
  return head_of_file.find(k_marker) != std::string_view::npos;
}

}  // namespace commlens
