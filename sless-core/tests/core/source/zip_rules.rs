//! The rest of what is refused, and what common packers write, which is not.

use super::forge::{Entry, Forge, accepted, refused, zip};

fn forge(change: impl FnOnce(&mut Forge)) -> Vec<u8> {
    let mut forge = Forge {
        entries: vec![Entry::stored("a", "1"), Entry::deflated("b", "22")],
        ..Forge::default()
    };
    change(&mut forge);
    forge.bytes()
}

fn field(id: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    [&id.to_le_bytes()[..], &length.to_le_bytes(), data].concat()
}

#[test]
fn no_byte_belongs_to_no_entry() {
    assert_eq!(accepted(forge(|_| ())).files().len(), 2);
    refused(
        forge(|f| f.prefix = b"#!/bin/sh\n".to_vec()),
        "zip_gap",
        "\"a\"",
    );
    refused(
        forge(|f| f.before_directory = b"x".to_vec()),
        "zip_gap",
        "zip",
    );
    refused(
        forge(|f| f.before_end = b"x".to_vec()),
        "zip_end_record",
        "zip",
    );
    refused(
        forge(|f| f.suffix = b"x".to_vec()),
        "zip_trailing_data",
        "zip",
    );
    refused(
        forge(|f| f.entries[0].after = b"x".to_vec()),
        "zip_gap",
        "\"b\"",
    );
    refused(
        forge(|f| f.entries[1].offset = Some(0)),
        "zip_overlap",
        "\"b\"",
    );
    refused(forge(|f| f.count = Some(1)), "zip_directory", "zip");
    refused(forge(|f| f.count = Some(3)), "zip_directory", "zip");
    refused(b"", "zip_not_a_zip", "zip");
    refused([0; 100_000], "zip_not_a_zip", "zip");
    refused(&forge(|_| ())[3..], "zip_end_record", "zip");
    refused(zip([]), "zip_empty", "no file");
}

#[test]
fn comments_are_allowed_and_hide_nothing() {
    accepted(forge(|f| {
        f.comment = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_vec()
    }));
    accepted(forge(|f| f.entries[1].comment = b"a comment".to_vec()));
    // A second archive in the comment.
    let second = zip([Entry::stored("x", "bad")]);
    refused(forge(|f| f.comment = second), "zip_end_record", "zip");
    // The same, with offsets that count from the start of the file.
    let second = Forge {
        prefix: forge(|_| ()),
        entries: vec![Entry::stored("x", "bad")],
        ..Forge::default()
    };
    refused(second.bytes(), "zip_gap", "\"x\"");
    refused(
        forge(|f| f.comment = b"PK\x05\x06".to_vec()),
        "zip_end_record",
        "cut",
    );
    // A zip64 locator in the comment of the last entry.
    let mut locator = b"PK\x06\x07".to_vec();
    locator.extend([0; 12]);
    locator.extend([1, 0, 0, 0]);
    let bytes = forge(|f| f.entries[1].comment = locator);
    refused(bytes, "zip_end_record", "zip64");
}

#[test]
fn data_descriptors_agree_or_are_refused() {
    for signed in [true, false] {
        let entries = [
            Entry::deflated("a", "11").streamed(signed),
            Entry::stored("b", "22").streamed(signed),
        ];
        let tree = accepted(zip(entries));
        assert_eq!(&tree.read("b").unwrap()[..], b"22");
        let lie = Entry::deflated("a", "11").streamed(signed).with(|e| {
            let last = e.after.len() - 4;
            e.after[last] ^= 1;
        });
        refused(zip([lie]), "zip_descriptor_mismatch", "\"a\"");
    }
    let none = Entry::deflated("a", "11").with(|e| e.flags = 1 << 3);
    refused(zip([none]), "zip_descriptor_mismatch", "\"a\"");
    // 16 bytes that are no signed descriptor.
    let unsigned = Entry::deflated("a", "11")
        .streamed(true)
        .with(|e| e.after[0] = 0);
    refused(zip([unsigned]), "zip_descriptor_mismatch", "\"a\"");
}

#[test]
fn zip64_fields_are_exact() {
    let sizes = |size: u64, packed: u64| [size.to_le_bytes(), packed.to_le_bytes()].concat();
    let wide = |e: &mut Entry| {
        let field = field(1, &sizes(u64::from(e.size), u64::from(e.compressed)));
        (e.extra, e.local_extra) = (field.clone(), field);
        (e.size, e.compressed) = (u32::MAX, u32::MAX);
    };
    accepted(zip([Entry::deflated("a", "11").with(wide)]));
    // Put there in advance, as writers do that do not know the size yet.
    accepted(zip([Entry::deflated("a", "11").with(|e| {
        e.local_extra = field(1, &sizes(u64::from(e.size), u64::from(e.compressed)));
    })]));

    let refuse = |change: fn(&mut Entry)| {
        let entry = Entry::deflated("a", "11").with(wide).with(change);
        refused(zip([entry]), "zip_zip64", "\"a\"");
    };
    refuse(|e| e.extra = Vec::new());
    refuse(|e| e.local_extra = Vec::new());
    refuse(|e| e.extra = field(1, &[0; 24]));
    refuse(|e| e.local_extra = field(1, &[0; 8]));
    let differ = Entry::deflated("a", "11")
        .with(wide)
        .with(|e| e.local_extra[4] ^= 1);
    refused(zip([differ]), "zip_size_mismatch", "\"a\"");
    let unasked = Entry::deflated("a", "11").with(|e| e.extra = field(1, &[0; 16]));
    refused(zip([unasked]), "zip_zip64", "\"a\"");
}

#[test]
fn extra_fields_cannot_say_other_things() {
    let with = |extra: Vec<u8>| zip([Entry::stored("a", "1").with(|e| e.extra = extra)]);
    accepted(with(field(0x5455, &[1, 0, 0, 0, 0])));
    accepted(with(
        [
            field(0x7875, &[1, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0]),
            field(0xcafe, &[]),
        ]
        .concat(),
    ));
    refused(with(field(0x756e, &[0; 14])), "zip_extra_field", "0x756e");
    refused(with(field(0x9901, &[0; 7])), "zip_extra_field", "0x9901");
    refused(with(vec![1, 0, 0]), "zip_extra_field", "malformed");
    refused(
        with(vec![0x55, 0x54, 9, 0, 0]),
        "zip_extra_field",
        "malformed",
    );
    let twice = [field(0x5455, &[0]), field(0x5455, &[0])].concat();
    refused(with(twice), "zip_extra_field", "twice");
    let unicode = |name: &str| {
        let mut crc = flate2::Crc::new();
        crc.update(b"a");
        [&[1], &crc.sum().to_le_bytes()[..], name.as_bytes()].concat()
    };
    accepted(with(field(0x7075, &unicode("a"))));
    refused(
        with(field(0x7075, &unicode("b"))),
        "zip_name_mismatch",
        "\"a\"",
    );
    let local = Entry::stored("a", "1").with(|e| e.local_extra = field(0x7075, &unicode("b")));
    refused(zip([local]), "zip_name_mismatch", "\"a\"");
}

#[test]
fn methods_and_flags_are_named() {
    let change = |change: fn(&mut Entry)| zip([Entry::deflated("a", "11").with(change)]);
    for (method, named) in [
        (12, "bzip2"),
        (14, "lzma"),
        (93, "zstd"),
        (9, "deflate64"),
        (77, "77"),
    ] {
        let entry = Entry::deflated("a", "11").with(|e| e.method = method);
        refused(zip([entry]), "zip_method", named);
    }
    refused(change(|e| e.flags = 1), "zip_encrypted", "\"a\"");
    refused(change(|e| e.flags = 1 << 6 | 1), "zip_encrypted", "\"a\"");
    refused(change(|e| e.flags = 1 << 13), "zip_encrypted", "\"a\"");
    refused(change(|e| e.flags = 1 << 5), "zip_flags", "0x0020");
    refused(change(|e| e.version = 51), "zip_version", "51");
    // How hard the packer tried may differ between the headers.
    accepted(change(|e| (e.flags, e.local_flags) = (0b110, Some(0))));
}

#[test]
fn data_is_what_its_headers_say() {
    let change = |change: fn(&mut Entry)| zip([Entry::deflated("a", "11111").with(change)]);
    refused(change(|e| e.crc ^= 1), "zip_crc_mismatch", "\"a\"");
    refused(change(|e| e.size += 1), "zip_size_mismatch", "\"a\"");
    refused(change(|e| e.size -= 1), "zip_size_mismatch", "\"a\"");
    refused(change(|e| e.packed.fill(0xff)), "zip_data", "\"a\"");
    // The deflate stream ends before the packed data does.
    let more = change(|e| {
        e.packed.extend(b"more");
        e.compressed += 4;
    });
    refused(more, "zip_size_mismatch", "\"a\"");
    let short = Entry::stored("a", "11111").with(|e| e.size -= 1);
    refused(zip([short]), "zip_size_mismatch", "\"a\"");
    let content = Entry::stored("d/", "x").with(|e| e.mode = 0o040_755);
    refused(zip([content]), "zip_directory_with_data", "\"d/\"");
}

#[test]
fn names_and_depth_have_limits() {
    let long = "a/".repeat(300) + "b";
    refused(
        zip([Entry::stored(long, "")]),
        "limit_source_path_bytes",
        "a/a",
    );
    let deep = "a/".repeat(40) + "b";
    refused(
        zip([Entry::stored(deep, "")]),
        "limit_source_path_depth",
        "a/a",
    );
    let comment = Entry::stored("a", "").with(|e| e.comment = vec![b'x'; 1025]);
    refused(zip([comment]), "limit_source_header_bytes", "\"a\"");
    let wide = "a".repeat(256);
    refused(
        zip([Entry::stored(wide, "")]),
        "limit_source_segment_bytes",
        "aaa",
    );
}

#[test]
fn only_the_executable_bit_is_kept() {
    let modes = [0o100_600, 0o100_777, 0o104_755, 0o100_010, 0o000_000, 0o755];
    let entries = modes.iter().enumerate();
    let tree = accepted(zip(entries.map(|(at, mode)| {
        Entry::stored(format!("{at}"), "").with(|e| e.mode = *mode)
    })));
    let kept: Vec<_> = tree.files().iter().map(|file| file.mode()).collect();
    assert_eq!(kept, [0o644, 0o755, 0o755, 0o755, 0o644, 0o755]);
    // The upper half of the attributes is a mode on Unix only.
    let dos = Entry::stored("a", "").with(|e| (e.made_by, e.mode) = (20, 0o100_755));
    assert!(!accepted(zip([dos])).files()[0].executable);
}

#[test]
fn what_macos_adds_is_left_out_and_listed() {
    let tree = accepted(zip([
        Entry::stored("handler.py", "x"),
        Entry::stored("lib/.DS_Store", "x"),
        Entry::stored("__MACOSX/._handler.py", "x"),
    ]));
    assert_eq!(tree.files().len(), 1);
    assert_eq!(tree.skipped(), ["lib/.DS_Store", "__MACOSX/._handler.py"]);
    // Its rules hold all the same.
    let bad = Entry::stored("__MACOSX/../x", "x");
    refused(zip([bad]), "zip_path_traversal", "__MACOSX");
    let bad = Entry::stored("__MACOSX/x", "x").with(|e| e.crc = 1);
    refused(zip([bad]), "zip_crc_mismatch", "__MACOSX");
}

#[test]
fn a_folder_around_everything_stays() {
    let tree = accepted(zip([
        Entry::stored("app/", "").with(|e| (e.mode, e.dos_attributes) = (0o040_755, 0x10)),
        Entry::stored("app/handler.py", "x"),
    ]));
    assert_eq!(tree.files()[0].path, "app/handler.py");
}

#[test]
fn a_long_hostile_name_is_cut_and_escaped() {
    let name = format!("\u{1b}[31m{}", "é\n".repeat(80));
    let error = refused(
        zip([Entry::stored(name, "")]),
        "zip_control_character",
        "\\u{1b}[31m",
    );
    assert!(error.message().chars().count() < 250, "{error}");
    assert!(!error.message().contains(char::is_control), "{error}");
}
