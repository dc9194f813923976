//! Runs the handlers of Python and Node functions: HTTP in front, long-lived workers behind.
