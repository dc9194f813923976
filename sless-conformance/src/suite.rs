//! How a suite is declared: its clauses once, and out of them the data and the macro.

/// Declares the clauses of a suite.
///
/// Each line is the number of a clause in its contract, and the module and function that check it.
/// Out of this come `clauses()`, `check()`, and the exported macro that makes a test of each.
macro_rules! suite {
    (
        ($d:tt)
        $(#[$doc:meta])*
        $suite:ident, $contract:literal, $harness:ident, $case:ty;
        $($number:literal $module:ident :: $name:ident,)*
    ) => {
        /// Every clause of this contract, in the order of their numbers.
        pub fn clauses() -> &'static [$crate::Clause<dyn $harness>] {
            const CLAUSES: &[$crate::Clause<dyn $harness>] = &[$($crate::Clause {
                id: concat!($contract, "-", $number),
                name: stringify!($name),
                run: |harness| Box::pin(async move {
                    let case = <$case>::open(harness).await?;
                    let outcome = $module::$name(&case).await;
                    let closed = case.close().await;
                    outcome.and(closed)
                }),
            }),*];
            CLAUSES
        }

        /// Runs the clause with this name.
        ///
        /// # Errors
        /// How it was violated, with the clause's number in front.
        pub async fn check(name: &str, harness: &(dyn $harness + 'static)) -> $crate::Outcome {
            match clauses().iter().find(|clause| clause.name == name) {
                Some(clause) => (clause.run)(harness).await.map_err(|violation| {
                    $crate::Violation::new(format!("{} is violated: {violation}", clause.id))
                }),
                None => Err($crate::Violation::new(format!("there is no clause {name}"))),
            }
        }

        $(#[$doc])*
        #[macro_export]
        macro_rules! $suite {
            (@tests [$d($d attributes:tt)*] flavor = $d flavor:literal, $d harness:expr $d(,)?) => {
                $(
                    $d($d attributes)*
                    #[test]
                    fn $name() {
                        $crate::run($d flavor, async {
                            let harness = $d harness;
                            $crate::$suite::check(stringify!($name), &harness).await
                        });
                    }
                )*
            };
            // One by one: an expression can begin with an attribute, too.
            (@tests [$d($d attributes:tt)*] #[$d($d next:tt)*] $d($d rest:tt)*) => {
                $crate::$suite!(
                    @tests [$d($d attributes)* #[$d($d next)*]] $d($d rest)*
                );
            };
            (@tests [$d($d attributes:tt)*] $d harness:expr $d(,)?) => {
                $crate::$suite!(
                    @tests [$d($d attributes)*] flavor = "multi_thread", $d harness
                );
            };
            ($d($d all:tt)+) => {
                $crate::$suite!(@tests [] $d($d all)+);
            };
        }
    };
}

pub(crate) use suite;
