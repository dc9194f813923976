CREATE TABLE namespaces(
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- An object is JSON as sless-core writes it, without its version, which stands beside it.
CREATE TABLE objects(
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (kind, namespace, name)
) STRICT;

-- Every change of an object is a row here; its position is the object's version. AUTOINCREMENT keeps
-- a position from being given twice after old rows were dropped.
CREATE TABLE changes(
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;

-- Who holds a lease is known to the process alone, since it owns the folder.
CREATE TABLE leases(
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
