//! The invocation log against a real PostgreSQL: the conformance suite, faults, two writers, versions.

mod postgres {
    mod conformance;
    mod faults;
    mod golden;
    mod many;
    mod support;
    mod tls;
}
