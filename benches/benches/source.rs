//! An upload's way from zip to build context, on a project of 200 files such as people upload.
#![allow(
    missing_docs,
    reason = "criterion's macros make public functions without documentation"
)]

use std::{hint::black_box, io::Cursor};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sless_core::{
    Entrypoint, Runtime, RuntimeInfo, RuntimeVersions,
    source::{NewFile, SourceArchive, SourceLimits, SourceTree, context, pack},
};

const FILES: usize = 200;

/// Text that deflates about as well as code does, the same on every machine.
fn text(random: &mut u64, bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "import ",
        "return ",
        "self.",
        "value",
        "    ",
        "\n",
        "def ",
        "(request)",
        " = ",
        "None",
        "# why this is so: ",
        "response",
    ];
    let mut text = Vec::with_capacity(bytes + 32);
    while text.len() < bytes {
        // Knuth's MMIX generator; the high bits are the good ones.
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let draw = (*random >> 33) as usize;
        text.extend_from_slice(WORDS[draw % WORDS.len()].as_bytes());
        if draw.is_multiple_of(5) {
            text.extend_from_slice(format!("{draw:x}").as_bytes());
        }
    }
    text.truncate(bytes);
    text
}

/// 200 files in 20 folders, of 200 bytes to 20 KB.
fn files() -> Vec<NewFile> {
    let mut random = 7;
    let mut files = vec![NewFile::new(
        "handler.py",
        "def handle(event):\n    return event\n",
    )];
    for number in 1..FILES {
        let path = format!("package{}/module{number}.py", number % 20);
        let bytes = 200 + number * number % 19_800;
        files.push(NewFile::new(path, text(&mut random, bytes)));
    }
    files
}

fn tree() -> SourceTree {
    SourceTree::from_new_files(files(), &SourceLimits::default()).expect("a source")
}

fn runtime() -> RuntimeInfo {
    RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .expect("the default")
}

fn context_of(tree: &SourceTree) -> Vec<u8> {
    let mut written = Vec::new();
    context::write(tree, &runtime(), &mut written).expect("written");
    written
}

fn source(criterion: &mut Criterion) {
    let (files, tree, limits) = (files(), tree(), SourceLimits::default());
    let zip = pack::write_zip(&tree, Cursor::new(Vec::new()))
        .expect("a zip")
        .into_inner();
    let context = context_of(&tree);
    let mut group = criterion.benchmark_group("source");
    group.throughput(Throughput::Bytes(tree.total_bytes()));
    group.bench_function("open_zip", |bencher| {
        bencher.iter(|| SourceArchive::open(Cursor::new(&zip), &limits).expect("a source"));
    });
    group.bench_function("digest", |bencher| {
        let tree = |files| {
            SourceTree::from_new_files(files, &limits)
                .expect("a source")
                .digest()
        };
        bencher.iter(|| tree(black_box(files.clone())));
    });
    group.bench_function("write_context", |bencher| {
        bencher.iter(|| context_of(&tree))
    });
    group.bench_function("read_context", |bencher| {
        bencher.iter(|| context::read(context.as_slice(), &limits).expect("a context"));
    });
    group.bench_function("write_zip", |bencher| {
        bencher.iter(|| pack::write_zip(&tree, Cursor::new(Vec::new())).expect("a zip"));
    });
    group.finish();
}

criterion_group!(benches, source);
criterion_main!(benches);
