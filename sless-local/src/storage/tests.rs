use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_core::{Digest, Error, ErrorKind, bytes_stream, collect_bytes};

use super::*;

fn open(config: &StorageConfig) -> (tempfile::TempDir, DataDir, LocalStorage) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = DataDir::open(folder.path()).expect("a data folder");
    let storage = LocalStorage::open(&dir, config).expect("opens");
    (folder, dir, storage)
}

fn key(text: &str) -> StorageKey {
    StorageKey::new(text).expect("a key")
}

/// A body of several parts, in chunks that do not fit them.
fn long() -> Vec<u8> {
    (0..300_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn chunked(bytes: &[u8]) -> ByteStream {
    let chunks: Vec<_> = bytes
        .chunks(77_777)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    stream::iter(chunks).boxed()
}

async fn read(storage: &LocalStorage, name: &str) -> Result<Bytes> {
    let fetched = storage.get(&key(name), &GetOptions::default()).await?;
    collect_bytes(fetched.body, "test", usize::MAX).await
}

fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(
                    entry
                        .path()
                        .strip_prefix(root)
                        .expect("below")
                        .display()
                        .to_string(),
                );
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_long_body_comes_back_whole_and_can_be_guarded() {
    let (_folder, dir, storage) = open(&StorageConfig::default());
    let bytes = long();
    let if_absent = PutOptions::default().if_absent();
    let stored = storage
        .put(&key("a/b"), chunked(&bytes), &if_absent)
        .await
        .expect("absent");
    assert_eq!(
        (stored.size, stored.digest),
        (bytes.len() as u64, Digest::of(&bytes))
    );
    let refused = storage
        .put(&key("a/b"), chunked(&bytes[1..]), &if_absent)
        .await;
    assert_eq!(refused.expect_err("there").kind(), ErrorKind::AlreadyExists);
    assert_eq!(read(&storage, "a/b").await.expect("there"), bytes);
    let replaced = storage
        .put(&key("a/b"), chunked(&bytes[1..]), &PutOptions::default())
        .await;
    assert_eq!(replaced.expect("replaced").size, bytes.len() as u64 - 1);
    assert_eq!(files(&dir.storage()), ["a/b="], "nothing is left beside it");
}

#[tokio::test]
async fn a_key_may_be_the_beginning_of_another() {
    let (_folder, _dir, storage) = open(&StorageConfig::default());
    for name in ["a", "a/b", "a/b/c", "a-b", "a.b"] {
        storage
            .put(&key(name), bytes_stream(name), &PutOptions::default())
            .await
            .expect("put");
    }
    let listed: Vec<_> = storage
        .list("a")
        .map_ok(|info| info.key.to_string())
        .try_collect()
        .await
        .expect("a list");
    assert_eq!(listed, ["a", "a-b", "a.b", "a/b", "a/b/c"]);
    storage.delete(&key("a/b")).await.expect("gone");
    assert_eq!(read(&storage, "a/b/c").await.expect("there"), "a/b/c");
    for odd in ["/", "../", "a//", "b/", "a/b/c/d/"] {
        assert_eq!(storage.list(odd).count().await, 0, "{odd}");
    }
}

#[tokio::test]
async fn a_broken_or_overlong_body_leaves_nothing() {
    let config = StorageConfig {
        object_bytes: 2_000_000,
        ..StorageConfig::default()
    };
    let (_folder, dir, storage) = open(&config);
    for options in [PutOptions::default(), PutOptions::default().if_absent()] {
        let broken = chunked(&long())
            .chain(stream::iter([Err(Error::internal("broken"))]))
            .boxed();
        let error = storage
            .put(&key("x"), broken, &options)
            .await
            .expect_err("broken");
        assert_eq!(error.kind(), ErrorKind::Internal);
        let twice = chunked(&long()).chain(chunked(&long())).boxed();
        let error = storage
            .put(&key("x"), twice, &options)
            .await
            .expect_err("too long");
        assert_eq!(error.reason(), "limit_object_bytes");
    }
    assert!(files(&dir.storage()).is_empty());
}

#[tokio::test]
async fn a_listing_longer_than_its_limit_is_refused_by_name() {
    let (_folder, _dir, storage) = open(&StorageConfig {
        list_objects: 1,
        ..StorageConfig::default()
    });
    for name in ["a", "b"] {
        storage
            .put(&key(name), bytes_stream(name), &PutOptions::default())
            .await
            .expect("put");
    }
    let all: Result<Vec<_>> = storage.list("").try_collect().await;
    assert_eq!(all.expect_err("two").reason(), "limit_list_objects");
    assert_eq!(storage.list("b").count().await, 1);
}

#[tokio::test]
async fn a_file_that_was_cut_ends_its_body_in_interrupted() {
    let (_folder, dir, storage) = open(&StorageConfig::default());
    storage
        .put(&key("x"), chunked(&long()), &PutOptions::default())
        .await
        .expect("put");
    let fetched = storage
        .get(&key("x"), &GetOptions::default())
        .await
        .expect("open");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(dir.storage().join("x="))
        .expect("a file");
    file.set_len(1000).expect("cut");
    let error = collect_bytes(fetched.body, "test", usize::MAX)
        .await
        .expect_err("cut");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[tokio::test]
async fn what_an_interrupted_body_left_is_removed_at_the_start() {
    let (_folder, dir, storage) = open(&StorageConfig::default());
    storage
        .put(&key("a/b"), bytes_stream("b"), &PutOptions::default())
        .await
        .expect("put");
    fs::write(dir.storage().join("a/b=#1"), "half").expect("written");
    fs::create_dir(dir.storage().join(",staging")).expect("made");
    fs::write(dir.storage().join(",staging/x"), "whole").expect("written");
    assert_eq!(storage.list("").count().await, 1, "no key has them");
    drop(storage);
    LocalStorage::open(&dir, &StorageConfig::default()).expect("opens");
    assert_eq!(files(&dir.storage()), ["a/b="]);
}
