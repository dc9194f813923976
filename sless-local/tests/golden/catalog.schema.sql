PRAGMA user_version = 1;

CREATE TABLE changes(
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE leases(
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE namespaces(
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE objects(
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (kind, namespace, name)
) STRICT;
