//! The smallest Python package that pip installs without a network.

use std::io::{Cursor, Write as _};

use bytes::Bytes;
use sless_core::{Error, Result};
use zip::{ZipWriter, write::SimpleFileOptions};

/// A wheel (PEP 427) of one module. Its record names the files without digests, which pip takes.
pub(crate) fn wheel(name: &str, module: &str) -> Result<Bytes> {
    let info = format!("{name}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n");
    let tags = "Wheel-Version: 1.0\nGenerator: sless\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let record = format!("{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
    let files = [
        (format!("{name}.py"), module),
        (format!("{info}/METADATA"), &metadata),
        (format!("{info}/WHEEL"), tags),
        (format!("{info}/RECORD"), &record),
    ];
    let failed = |error: std::io::Error| Error::internal("cannot pack a wheel").with_source(error);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in files {
        zip.start_file(path, SimpleFileOptions::default())
            .map_err(|error| failed(error.into()))?;
        zip.write_all(content.as_bytes()).map_err(failed)?;
    }
    let packed = zip.finish().map_err(|error| failed(error.into()))?;
    Ok(packed.into_inner().into())
}
