//! What a macro takes beside a harness.

use std::sync::Arc;

use sless_conformance::Volatile;
use sless_core::{Lease, SystemClock, memory::MemoryLease};

mod left_out {
    // Were one of these tests there, it would not compile.
    sless_conformance::lease!(
        #[cfg(any())]
        #[should_panic = "an attribute with a value"]
        a_harness_that_is_nowhere().await
    );
}

fn lease() -> Volatile<dyn Lease> {
    Volatile::lease(MemoryLease::new(Arc::new(SystemClock)))
}

mod all_at_once {
    use super::lease;
    sless_conformance::lease!(
        #[cfg(test)]
        flavor = "current_thread",
        lease(),
    );
}
