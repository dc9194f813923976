//! Conformance suites for backends of sless: one per trait, one named test per clause.
