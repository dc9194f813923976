PRAGMA user_version = 2;

CREATE TABLE invocations(
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    request_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    function TEXT NOT NULL,
    origin TEXT NOT NULL,
    cause TEXT,
    attempt INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    status INTEGER NOT NULL,
    error TEXT,
    response_bytes INTEGER NOT NULL
, caller TEXT, request_bytes INTEGER NOT NULL DEFAULT 0, log_tail TEXT) STRICT;

CREATE INDEX invocations_by_function ON invocations(namespace, function, started_at);

CREATE INDEX invocations_by_namespace ON invocations(namespace, started_at);

CREATE INDEX invocations_by_time ON invocations(started_at);

CREATE INDEX invocations_failed ON invocations(namespace, function, started_at) WHERE status >= 400;
