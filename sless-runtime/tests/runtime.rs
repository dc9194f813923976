//! Real interpreters, real workers. Needs `python3` (3.11 or later) and `node` (20 or later).
#![allow(clippy::unwrap_used)]

mod runtime {
    mod binary;
    mod calls;
    mod contract;
    mod life;
    mod log_tail;
    mod logs;
    mod modules;
    mod once;
    #[cfg(target_os = "linux")]
    mod sandbox;
    mod start;
    mod streams;
    pub(crate) mod support;
    mod zygote;
    mod zygote_ends;
}
