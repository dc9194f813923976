//! The backends on a real cluster. What needs one says so, and `testing/kubernetes/up` starts it.
#![allow(clippy::expect_used, clippy::panic, reason = "this is how tests fail")]
#![allow(clippy::print_stdout, reason = "what is measured is shown")]

mod kubernetes {
    mod away;
    mod between;
    mod build_place;
    mod build_suites;
    mod builder_suite;
    mod builds;
    mod catalog_faults;
    mod catalog_refusals;
    mod catalog_schema;
    mod catalog_suite;
    mod closed_registry;
    mod cron_jobs;
    mod curl_image;
    mod faults;
    mod handover;
    mod images;
    mod index;
    mod isolation;
    mod job_reasons;
    mod keda;
    mod kubectl;
    mod many;
    mod namespaces;
    mod operator;
    mod orphans;
    mod place;
    mod plane;
    mod reasons;
    mod scaling;
    mod scheduler_suite;
    mod services;
    mod wake;
    mod workloads;
    mod world;
}
