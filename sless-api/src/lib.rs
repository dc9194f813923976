//! Wire types and typed client of the REST API of sless.
