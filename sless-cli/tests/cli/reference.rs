//! `docs/cli.md` is what the commands say of themselves.

use std::{fs, path::Path};

#[test]
fn the_reference_is_what_the_commands_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let text = sless_cli::reference::reference();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept == text,
        "docs/cli.md differs: UPDATE_REFERENCE=1 writes it anew"
    );
    for word in [
        "[`sless deploy`]",
        "## sless trigger dead-letters redrive",
        "SLESS_API_TOKEN",
        "| 130 |",
    ] {
        assert!(text.contains(word), "{word}");
    }
}
