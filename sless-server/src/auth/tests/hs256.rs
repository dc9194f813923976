//! The shared secret and the tokens made with it.

use std::{fs, time::Duration};

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn what_is_minted_is_let_in() {
    let folder = folder();
    let path = folder.path().join("auth/hs256.key");
    let key = Hs256Key::load_or_create(&path).unwrap();
    let token = key.mint("alice", Duration::from_secs(3600), now()).unwrap();
    // A restart reads the same secret.
    let again = Hs256Key::load_or_create(&path).unwrap();
    let authenticator = Authenticator::new(AuthMode::Hs256(again), []);
    let principal = authenticator.authenticate(&token, now()).await.unwrap();
    assert_eq!(principal.sub, "alice");
    let later = now() + jiff::SignedDuration::from_secs(3600);
    assert_eq!(
        code(authenticator.authenticate(&token, later).await),
        "token_expired"
    );
}

#[tokio::test]
async fn another_secret_algorithm_or_payload_is_refused() {
    let folder = folder();
    let key = Hs256Key::load_or_create(&folder.path().join("a")).unwrap();
    let other = Hs256Key::load_or_create(&folder.path().join("b")).unwrap();
    let token = other.mint("alice", Duration::from_secs(60), now()).unwrap();
    let authenticator = Authenticator::new(AuthMode::Hs256(key), []);
    assert_eq!(
        code(authenticator.authenticate(&token, now()).await),
        "token_signature"
    );
    let claims = format!(r#"{{"sub":"alice","exp":{}}}"#, now().as_second() + 60);
    for alg in ["none", "HS384", "HS512", "RS256", "hs256"] {
        let token = maker::assemble(&format!(r#"{{"alg":"{alg}"}}"#), &claims, b"x");
        assert_eq!(
            code(authenticator.authenticate(&token, now()).await),
            "token_algorithm"
        );
    }
}

#[test]
fn the_file_is_the_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("key");
    Hs256Key::load_or_create(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no temporary file is left"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Hs256Key::load_or_create(&path).unwrap_err();
    assert!(error.to_string().contains("mode 644"), "{error}");
}

#[test]
fn a_file_with_something_else_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("key");
    for content in [
        "",
        "secret",
        &"g".repeat(64),
        &"a".repeat(63),
        &"ä".repeat(32),
    ] {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = Hs256Key::load_or_create(&path).unwrap_err();
        assert!(matches!(error, KeyFileError::Content { .. }), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
}

#[test]
fn many_that_start_at_once_use_one_secret() {
    let folder = folder();
    let path = folder.path().join("key");
    let tokens: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Hs256Key::load_or_create(&path).unwrap()))
            .collect();
        let keys = threads.into_iter().map(|thread| thread.join().unwrap());
        keys.map(|key| key.mint("a", Duration::from_secs(60), now()).unwrap())
            .collect()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0]));
}

#[test]
fn what_a_killed_process_has_left_is_taken_up() {
    let folder = folder();
    let path = folder.path().join("the.key");
    fs::write(folder.path().join("the.new"), "half a sec").unwrap();
    Hs256Key::load_or_create(&path).unwrap();
    let files = fs::read_dir(folder.path()).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["the.key"]);
}

#[test]
fn no_debug_text_shows_the_secret() {
    let folder = folder();
    let path = folder.path().join("key");
    let key = Hs256Key::load_or_create(&path).unwrap();
    let secret = fs::read_to_string(&path).unwrap();
    assert!(!format!("{key:?}").contains(secret.trim_end()));
}

#[test]
fn a_token_that_could_not_open_anything_is_not_made() {
    let folder = folder();
    let key = Hs256Key::load_or_create(&folder.path().join("key")).unwrap();
    assert!(key.mint("", Duration::from_secs(60), now()).is_err());
    assert!(key.mint("a", Duration::ZERO, now()).is_err());
    assert!(key.mint("a", Duration::MAX, now()).is_err());
}
