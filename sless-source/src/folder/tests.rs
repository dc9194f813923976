//! What a folder is taken for.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Folder) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("My_Function");
    fs::create_dir(&path).unwrap();
    for (name, text) in files {
        let path = path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let folder = Folder::open(&path).unwrap();
    (root, folder)
}

fn read(files: &[(&str, &str)]) -> Result<Content, FolderError> {
    let (_root, folder) = folder(files);
    folder.read(&SourceLimits::default(), &Overrides::default())
}

#[test]
fn without_a_manifest_name_and_language_come_from_the_folder() {
    let python = read(&[("handler.py", "")]).unwrap();
    assert_eq!(python.name.as_str(), "my-function");
    assert_eq!(python.spec, FunctionSpec::new(Runtime::Python311));
    for handler in ["handler.js", "handler.mjs", "handler/index.js"] {
        let node = read(&[(handler, "")]).unwrap();
        assert_eq!(node.spec, FunctionSpec::new(Runtime::NodeJs20));
    }
    // What builds need beside the handler does not make it another language.
    let both = read(&[("handler.js", ""), ("requirements.txt", "")]).unwrap();
    assert_eq!(both.spec.runtime, Runtime::NodeJs20);
}

#[test]
fn a_folder_without_a_function_is_refused_with_the_files_looked_for() {
    let error = read(&[("main.go", "")]).unwrap_err().to_string();
    for file in [
        "My_Function",
        "sless.toml",
        "handler.py",
        "handler.js",
        "handler.mjs",
    ] {
        assert!(error.contains(file), "{file}: {error}");
    }
    let error = read(&[("package.json", "{}")]).unwrap_err().to_string();
    assert!(
        error.contains("handler.js") && !error.contains("handler.py"),
        "{error}"
    );
    let manifest = "name = 'a'\nruntime = 'python3.11'\nentrypoint = 'app.main'\n";
    let error = read(&[(FILE, manifest), ("handler.py", "")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("app.py") && error.contains("app.main"),
        "{error}"
    );
    let error = read(&[("handler.py", ""), ("handler.js", "")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("`runtime` in sless.toml"), "{error}");
}

#[test]
fn what_is_no_folder_is_refused_by_name() {
    let (root, folder) = folder(&[("handler.py", "")]);
    let error = Folder::open(&root.path().join("nowhere"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nowhere") && error.contains("expected a folder"),
        "{error}"
    );
    let error = Folder::open(&folder.path.join("handler.py"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("handler.py is a file"), "{error}");
}

#[test]
fn a_wrong_manifest_is_named_with_the_place() {
    let error = read(&[(FILE, "name = 'a'\n\nfoo = 1\n"), ("handler.py", "")]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("sless.toml:3:1: unknown field `foo`"),
        "{error}"
    );
}

#[test]
fn a_change_of_code_or_manifest_is_another_content() {
    let (_root, folder) = folder(&[("handler.py", "1")]);
    let limits = SourceLimits::default();
    let read = || folder.read(&limits, &Overrides::default()).unwrap();
    let before = read();
    fs::write(folder.path.join("handler.py~"), "").unwrap();
    fs::remove_file(folder.path.join("handler.py~")).unwrap();
    assert_eq!(read(), before);
    fs::write(folder.path.join("handler.py"), "2").unwrap();
    assert_ne!(read(), before);
    fs::write(folder.path.join("handler.py"), "1").unwrap();
    let manifest = "name = 'my-function'\nruntime = 'python3.11'\nconcurrency = 2\n";
    fs::write(folder.path.join(FILE), manifest).unwrap();
    let after = read();
    assert_eq!(after.tree.digest(), before.tree.digest());
    assert_ne!(after, before);
}

proptest! {
    #[test]
    fn whatever_label_is_made_is_a_name(name in "\\PC{0,90}") {
        match label(&name) {
            Some(label) => prop_assert!(Name::new(label).is_ok()),
            None => prop_assert!(!name.chars().any(|c| c.is_ascii_alphanumeric())),
        }
    }
}
