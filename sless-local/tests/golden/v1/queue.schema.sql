PRAGMA user_version = 1;

CREATE TABLE dead_letters(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trigger_uid TEXT NOT NULL,
    trigger_namespace TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    reason TEXT NOT NULL,
    died_at INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    body BLOB NOT NULL,
    content_type TEXT,
    headers TEXT NOT NULL,
    published_at INTEGER,
    bytes INTEGER NOT NULL
) STRICT;

CREATE INDEX dead_letters_by_trigger
    ON dead_letters(trigger_uid, trigger_namespace, trigger_name, id);

CREATE TABLE messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    body BLOB NOT NULL,
    content_type TEXT,
    headers TEXT NOT NULL,
    published_at INTEGER,
    bytes INTEGER NOT NULL
) STRICT;

CREATE INDEX messages_by_due ON messages(queue, due_at, id);

CREATE TABLE queues(
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) STRICT;
