PRAGMA user_version = 1;

CREATE TABLE record (
                  kind TEXT NOT NULL,
                  key TEXT NOT NULL,
                  value TEXT NOT NULL,
                  PRIMARY KEY (kind, key)
              ) STRICT, WITHOUT ROWID;
