//! The shared secret of mode `hs256`, and tokens made with it.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

use super::keys::VerifyKey;

/// How many bytes the secret has: as many as the hash (RFC 7518, section 3.2, asks for no fewer).
const SECRET_BYTES: usize = 32;

/// The shared secret.
#[derive(Debug)]
pub struct Hs256Key {
    secret: Secret,
    verify: VerifyKey,
}

struct Secret([u8; SECRET_BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Why the secret's file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read or made.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// `read` or `make`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not hold a secret.
    #[error("{} does not hold a secret: expected 64 hex digits (32 bytes)", path.display())]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// Others on the machine can read the file.
    #[error("{} has mode {mode:o}: expected 600, or 440 where it is root's, since whoever reads it can \
             make any token", path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// No token can be made from these words.
    #[error("cannot make a token: {0}")]
    Token(String),
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    iat: i64,
    exp: i64,
}

impl Hs256Key {
    /// The secret in this file; made there if the file does not exist.
    ///
    /// The file appears whole, readable by its owner only, or not at all; of two processes that
    /// start at once, both use the same one.
    ///
    /// # Errors
    /// [`KeyFileError`] naming the file.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        match Self::load(path) {
            Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create(path).map_err(|source| KeyFileError::Io {
                    action: "make",
                    path: path.to_owned(),
                    source,
                })?;
                Self::load(path)
            }
            other => other,
        }
    }

    /// The secret in this file.
    ///
    /// # Errors
    /// [`KeyFileError`] naming the file.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let read = |source| KeyFileError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let metadata = fs::metadata(path).map_err(read)?;
            let mode = metadata.mode() & 0o7777;
            if is_open(mode, metadata.uid()) {
                return Err(KeyFileError::Mode {
                    path: path.to_owned(),
                    mode,
                });
            }
        }
        let text = fs::read_to_string(path).map_err(read)?;
        let content = || KeyFileError::Content {
            path: path.to_owned(),
        };
        let secret = unhex(text.trim_end()).ok_or_else(content)?;
        Ok(Self {
            verify: VerifyKey::hs256(&secret).ok_or_else(content)?,
            secret: Secret(secret),
        })
    }

    /// Makes a token for this subject, valid from `now` for `ttl`.
    ///
    /// # Errors
    /// [`KeyFileError::Token`] where the subject is empty or the time out of range.
    pub fn mint(&self, sub: &str, ttl: Duration, now: Timestamp) -> Result<String, KeyFileError> {
        if sub.is_empty() {
            return Err(KeyFileError::Token("the subject is empty".to_owned()));
        }
        if ttl.as_secs() == 0 {
            return Err(KeyFileError::Token(
                "it would have expired already".to_owned(),
            ));
        }
        let iat = now.as_second();
        let exp = i64::try_from(ttl.as_secs())
            .ok()
            .and_then(|ttl| iat.checked_add(ttl))
            .ok_or_else(|| KeyFileError::Token("it would expire too far ahead".to_owned()))?;
        let key = EncodingKey::from_secret(&self.secret.0);
        key.and_then(|key| {
            jsonwebtoken::encode(
                &Header::new(Algorithm::HS256),
                &Claims { sub, iat, exp },
                &key,
            )
        })
        .map_err(|error| KeyFileError::Token(error.to_string()))
    }

    /// The secret itself, for what else is sealed with such a file.
    pub(crate) const fn secret(&self) -> [u8; SECRET_BYTES] {
        self.secret.0
    }

    pub(super) fn verify_key(&self) -> &VerifyKey {
        &self.verify
    }
}

/// Whether others than its owner get at a file. What Kubernetes mounts into a pod belongs to root, and the
/// pod's own group may read it; no other mode would let a process read it that is not root.
#[cfg(unix)]
const fn is_open(mode: u32, owner: u32) -> bool {
    let others = if owner == 0 { 0o037 } else { 0o077 };
    mode & others != 0
}

fn create(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Always the same name, so that the next start takes up what a killed one has left; and locked, so
    // that of two processes one writes and the other one waits for it.
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    file.lock()?;
    if path.exists() {
        // Another process was first; its secret is the one. Whoever else has opened this one sees that too.
        let _ = fs::remove_file(&new);
        return Ok(());
    }
    // What was there before may have been made by other hands.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    file.set_len(0)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    #[cfg(feature = "fault-points")]
    crate::faults::points::KEY_BEFORE.pass();
    fs::rename(&new, path)?;
    #[cfg(feature = "fault-points")]
    crate::faults::points::KEY_AFTER.pass();
    Ok(())
}

fn unhex(text: &str) -> Option<[u8; SECRET_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    let mut bytes = [0; SECRET_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::is_open;

    #[test]
    fn only_roots_files_may_be_read_by_a_group() {
        for (mode, owner, open) in [
            (0o600, 1000, false),
            (0o400, 0, false),
            (0o440, 0, false),
            (0o440, 1000, true),
            (0o640, 0, false),
            (0o660, 0, true),
            (0o644, 0, true),
            (0o604, 1000, true),
        ] {
            assert_eq!(is_open(mode, owner), open, "{mode:o} of {owner}");
        }
    }
}
