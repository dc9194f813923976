//! Every suite on the backends in memory, the contracts' documents against the suites, and broken
//! backends against the clauses that have to find them.

mod attributes;
mod broken;
mod documents;
mod memory;
