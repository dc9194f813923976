-- `number` is the order of arrival, and breaks the ties of records that began at one time.
CREATE TABLE sless_invocations (
    id TEXT PRIMARY KEY,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    request_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    function TEXT NOT NULL,
    origin TEXT NOT NULL,
    cause TEXT,
    caller TEXT,
    attempt BIGINT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    duration_us BIGINT NOT NULL,
    status INTEGER NOT NULL,
    error TEXT,
    request_bytes BIGINT NOT NULL,
    response_bytes BIGINT NOT NULL,
    log_tail TEXT
);

CREATE INDEX sless_invocations_by_function
    ON sless_invocations (namespace, function, started_at, number);
CREATE INDEX sless_invocations_by_origin
    ON sless_invocations (namespace, function, origin, started_at, number);
CREATE INDEX sless_invocations_failed
    ON sless_invocations (namespace, function, started_at, number) WHERE status >= 400;
CREATE INDEX sless_invocations_by_namespace
    ON sless_invocations (namespace, started_at, number);
CREATE INDEX sless_invocations_by_time
    ON sless_invocations (started_at, number);
