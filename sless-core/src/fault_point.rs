//! Moments at which a test may end the process, each with a name.
//!
//! A crash leaves the state before a step or after it, never between. To try that, the code names the
//! moments beside its steps, and a harness ends the process at one of them. With the feature
//! `fault-points`, which only tests turn on, [`listen`] has every passing told to whoever listens. Without
//! it a passing is nothing.

/// Those of the engine.
pub const ENGINE: &[FaultPoint] = crate::engine::points::ALL;

/// A moment of the code that has a name, such as `catalog.commit.before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultPoint(&'static str);

impl FaultPoint {
    /// The moment of this name: what is done, the step, and whether it is before or after it.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Says that the code is there.
    #[inline]
    pub fn pass(self) {
        #[cfg(feature = "fault-points")]
        if let Some(listener) = LISTENER.get() {
            listener(self);
        }
    }
}

#[cfg(feature = "fault-points")]
type Listener = Box<dyn Fn(FaultPoint) + Send + Sync>;

#[cfg(feature = "fault-points")]
static LISTENER: std::sync::OnceLock<Listener> = std::sync::OnceLock::new();

/// Has every passing told, on the thread that passes, as long as this process lives. Answers `false` where
/// another one listens already.
#[cfg(feature = "fault-points")]
pub fn listen(listener: impl Fn(FaultPoint) + Send + Sync + 'static) -> bool {
    LISTENER.set(Box::new(listener)).is_ok()
}

/// Names the fault points of a module: a constant for each, and `ALL` with all of them.
///
/// ```
/// sless_core::fault_points! {
///     /// Whole, and not in its place yet.
///     RENAME_BEFORE = "file.rename.before";
/// }
/// RENAME_BEFORE.pass();
/// assert_eq!(ALL, [RENAME_BEFORE]);
/// ```
#[macro_export]
macro_rules! fault_points {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        $($(#[$doc])* pub(crate) const $constant: $crate::FaultPoint = $crate::FaultPoint::new($name);)*

        /// All of them.
        pub(crate) const ALL: &[$crate::FaultPoint] = &[$($constant),*];
    };
}
