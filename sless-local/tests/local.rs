//! The local backends against the conformance suites, golden files, and SIGKILL.

mod local {
    mod catalog;
    mod conformance;
    mod crash;
    mod functions;
    mod golden;
    mod golden_work;
    mod programs;
    mod queue;
    #[cfg(target_os = "linux")]
    mod sandbox;
    mod zygotes;
}
