#include "commlens/report/documents/document_fields.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::size_t k_most_items = 100'000;
constexpr std::size_t k_longest_text = 10'000;
constexpr double k_largest_number = 1e18;

const nlohmann::json& empty_object() {
  static const nlohmann::json object = nlohmann::json::object();
  return object;
}

}  // namespace

DocumentFields::DocumentFields(const nlohmann::json& object, std::string place,
                               std::optional<std::string>& error)
    : object_(&object), place_(std::move(place)), error_(&error) {
  if (!object.is_object()) {
    object_ = &empty_object();
    if (!error) {
      error = fmt::format("{} must be an object", place_.empty() ? "it" : place_);
    }
  }
}

void DocumentFields::fail(const char* key, std::string_view what) {
  if (!*error_) {
    *error_ = fmt::format("{}{}{} {}", place_, place_.empty() ? "" : ".", key, what);
  }
}

const nlohmann::json* DocumentFields::find(const char* key) {
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) {
    return nullptr;
  }
  return &*found;
}

bool DocumentFields::has(const char* key) const {
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

std::optional<double> DocumentFields::number_in(const char* key, double least) {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= least && number <= k_largest_number)) {
    fail(key, fmt::format("must be a number from {:g} to {:g}", least, k_largest_number));
    return 0;
  }
  return number;
}

double DocumentFields::number(const char* key) {
  const std::optional<double> value = number_in(key, 0);
  if (!value) {
    fail(key, "is missing");
  }
  return value.value_or(0);
}

double DocumentFields::signed_number(const char* key) {
  const std::optional<double> value = number_in(key, -k_largest_number);
  if (!value) {
    fail(key, "is missing");
  }
  return value.value_or(0);
}

std::optional<double> DocumentFields::optional_number(const char* key) {
  return number_in(key, -k_largest_number);
}

std::int64_t DocumentFields::whole(const char* key) {
  const double value = number(key);
  if (value != std::floor(value)) {
    fail(key, "must be a whole number");
  }
  return static_cast<std::int64_t>(value);
}

bool DocumentFields::flag(const char* key) {
  const nlohmann::json* const value = find(key);
  if (value == nullptr || !value->is_boolean()) {
    fail(key, "must be true or false");
    return false;
  }
  return value->get<bool>();
}

std::string DocumentFields::optional_text(const char* key) {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) {
    return "";
  }
  if (!value->is_string() || value->get_ref<const std::string&>().size() > k_longest_text) {
    fail(key, fmt::format("must be a text of at most {} bytes", k_longest_text));
    return "";
  }
  return value->get<std::string>();
}

std::string DocumentFields::text(const char* key) {
  if (!has(key)) {
    fail(key, "is missing");
  }
  return optional_text(key);
}

std::vector<std::string> DocumentFields::texts(const char* key) {
  const nlohmann::json* const value = find(key);
  std::vector<std::string> list;
  if (value == nullptr || !value->is_array() || value->size() > k_most_items) {
    fail(key, "must be a list of texts");
    return list;
  }
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) {
      fail(key, "must be a list of texts");
      return {};
    }
    list.push_back(item.get<std::string>().substr(0, k_longest_text));
  }
  return list;
}

DocumentFields DocumentFields::object(const char* key) {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) {
    fail(key, "is missing");
  }
  return {value == nullptr ? empty_object() : *value, place_.empty() ? key : place_ + "." + key, *error_};
}

std::vector<DocumentFields> DocumentFields::objects(const char* key) {
  const nlohmann::json* const value = find(key);
  std::vector<DocumentFields> list;
  if (value == nullptr || !value->is_array() || value->size() > k_most_items) {
    fail(key, fmt::format("must be a list of at most {} objects", k_most_items));
    return list;
  }
  for (const nlohmann::json& item : *value) {
    list.emplace_back(item, fmt::format("{}{}{}[{}]", place_, place_.empty() ? "" : ".", key, list.size()),
                      *error_);
  }
  return list;
}

}  // namespace commlens
