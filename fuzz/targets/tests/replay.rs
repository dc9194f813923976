//! The stored inputs, as they are and changed here and there, without libFuzzer.

use std::{collections::BTreeSet, fs, path::Path};

use proptest::{
    collection::vec,
    prelude::*,
    sample::Index,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};
use sless_fuzz_targets::TARGETS;

/// Changed inputs for each target where `SLESS_TEST_ROUNDS` does not say.
const ROUNDS: u32 = 400;

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The stored inputs of a target, in the order of their names.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder("corpus").join(target)).expect("a corpus");
    let paths: BTreeSet<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let read = |path| fs::read(path).expect("an input");
    paths.iter().map(read).collect()
}

#[test]
fn every_stored_input_is_well() {
    for (name, run) in TARGETS {
        let (accepted, refused): (Vec<_>, Vec<_>) =
            inputs(name).into_iter().partition(|input| run(input));
        // Where all is refused, nothing of what is accepted was looked at.
        let (accepted, refused) = (accepted.len(), refused.len());
        assert!(
            accepted >= 5 && refused >= 3,
            "{name}: {accepted} accepted, {refused} refused"
        );
    }
}

/// What a fuzzer does to an input.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    /// The rest is that of another input, from there on.
    Splice(Index, Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    // Those on which formats turn.
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(b"\0\x01\x7f\x80\xff\n\r\t \"',-./\\0*:=[]{}".to_vec()),
    ];
    prop_oneof![
        (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (any::<Index>(), vec(byte, 1..6)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<Index>(), 1..20_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
        (any::<Index>(), any::<Index>(), any::<Index>())
            .prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ]
}

fn edited(inputs: &[Vec<u8>], first: &Index, edits: &[Edit]) -> Vec<u8> {
    let mut bytes = first.get(inputs).clone();
    for edit in edits {
        // A place in it, or behind it.
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match edit {
            Edit::Set(at, byte) => {
                let at = place(at, &bytes);
                bytes.splice(at..bytes.len().min(at + 1), [*byte]);
            }
            Edit::Flip(at, bit) => {
                let at = place(at, &bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Edit::Insert(at, new) => {
                let at = place(at, &bytes);
                bytes.splice(at..at, new.iter().copied());
            }
            Edit::Remove(at, length) => {
                let at = place(at, &bytes);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Edit::Repeat(at, length) => {
                let at = place(at, &bytes);
                let again = bytes[at..bytes.len().min(at + length)].to_vec();
                bytes.splice(at..at, again);
            }
            Edit::Splice(at, other, from) => {
                let other = other.get(inputs);
                bytes.truncate(place(at, &bytes));
                bytes.extend_from_slice(&other[place(from, other)..]);
            }
        }
    }
    bytes
}

/// The same ones each time; more of them, `SLESS_TEST_ROUNDS`, begin with those.
#[test]
fn changed_inputs_are_well() {
    let rounds = std::env::var("SLESS_TEST_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |text| text.parse().expect("a count"));
    for (name, run) in TARGETS {
        let inputs = inputs(name);
        let config = Config {
            cases: rounds,
            failure_persistence: None,
            ..Config::default()
        };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let changed = (any::<Index>(), vec(edit(), 1..6));
        let ended = TestRunner::new_with_rng(config, random).run(&changed, |(first, edits)| {
            run(&edited(&inputs, &first, &edits));
            Ok(())
        });
        if let Err(error) = ended {
            let TestError::Fail(reason, (first, edits)) = error else {
                panic!("{name}: {error}");
            };
            let input = edited(&inputs, &first, &edits);
            panic!("{name}: {reason}\nwith b\"{}\"", input.escape_ascii());
        }
    }
}

#[test]
fn a_target_is_a_program_of_libfuzzer_and_has_inputs() {
    let names = |folder_name: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(folder(folder_name)).expect("a folder");
        let stems = entries.map(|entry| {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            stem.expect("a name").to_owned()
        });
        stems.collect()
    };
    let known: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), known);
    assert_eq!(names("corpus"), known);
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("the manifest");
    for name in known {
        let program = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&program), "no program for {name}");
    }
}
