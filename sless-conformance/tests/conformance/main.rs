//! Every suite on the backends in memory, the contracts' documents held against the suites, and
//! broken backends held against the clauses that have to find them.

mod memory;
