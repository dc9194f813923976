//! The backends of sless for one machine: SQLite, files, processes, an in-process queue.
