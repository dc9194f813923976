//! Extra fields of headers (APPNOTE 4.5).

use super::Fields;
use crate::{Result, source::path::Origin};

const ZIP64: u16 = 0x0001;
const UNICODE_PATH: u16 = 0x7075;

/// Fields that say nothing of names, contents or kinds: times, owners, comments, padding.
const HARMLESS: &[u16] = &[
    0x000a, // NTFS times
    0x5455, // times
    0x5855, // times, owner (old Info-ZIP)
    0x6375, // comment in Unicode
    0x7855, // owner (Info-ZIP)
    0x7875, // owner (Info-ZIP, new)
    0xa220, // padding (Office)
    0xcafe, // mark of a JAR
    0xd935, // alignment (Android)
];

/// Walks the extra fields of a header and answers with the zip64 one.
///
/// A field that some readers take a name, a link, a device or a method from is refused, and so is
/// one that is not known.
pub(super) fn zip64<'bytes>(name: &[u8], mut rest: &'bytes [u8]) -> Result<Option<&'bytes [u8]>> {
    let refuse = |rule: &str| Err(Origin::Zip.refuse(name, "extra_field", rule));
    let mut found = None;
    let mut seen = Vec::new();
    while !rest.is_empty() {
        if rest.len() < 4 {
            return refuse("its extra fields are malformed");
        }
        let mut fields = Fields(rest);
        let (id, size) = (fields.u16(), usize::from(fields.u16()));
        let Some((field, after)) = fields.0.split_at_checked(size) else {
            return refuse("its extra fields are malformed");
        };
        rest = after;
        if seen.contains(&id) {
            return refuse("an extra field is there twice");
        }
        seen.push(id);
        match id {
            ZIP64 => found = Some(field),
            UNICODE_PATH => check_unicode_path(name, field)?,
            id if HARMLESS.contains(&id) => {}
            id => {
                let rule = format!("extra field 0x{id:04x} is not supported");
                return Err(Origin::Zip.refuse(name, "extra_field", rule));
            }
        }
    }
    Ok(found)
}

/// Info-ZIP's second name has to be the first one.
fn check_unicode_path(name: &[u8], field: &[u8]) -> Result<()> {
    let mut crc = flate2::Crc::new();
    crc.update(name);
    let expected = crc.sum().to_le_bytes();
    let same = field.first() == Some(&1)
        && field.get(1..5) == Some(expected.as_slice())
        && field.get(5..) == Some(name);
    if same {
        return Ok(());
    }
    Err(Origin::Zip.refuse(
        name,
        "name_mismatch",
        "an extra field gives it another name",
    ))
}
