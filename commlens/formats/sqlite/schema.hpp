#pragma once

namespace commlens::formats::sqlite {

/// The tables of docs/formats/sqlite.md, made before they are filled.
extern const char* const k_sqlite_tables;

/// Its indexes and views, made afterwards.
extern const char* const k_sqlite_views;

}  // namespace commlens::formats::sqlite
