-- Who called, how much came in, and the end of what the call wrote to its log.
ALTER TABLE invocations ADD COLUMN caller TEXT;
ALTER TABLE invocations ADD COLUMN request_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE invocations ADD COLUMN log_tail TEXT;
