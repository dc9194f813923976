//! The backends on a real cluster. What needs one says so, and `testing/kubernetes/up` starts it.
#![allow(clippy::expect_used, clippy::panic, reason = "this is how tests fail")]

mod kubernetes {
    mod builder_suite;
    mod catalog_faults;
    mod catalog_refusals;
    mod catalog_schema;
    mod catalog_suite;
    mod kubectl;
    mod namespaces;
    mod place;
    mod plane;
    mod reasons;
    mod scheduler_suite;
    mod workloads;
    mod world;
}
