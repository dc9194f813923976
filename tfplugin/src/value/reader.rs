//! MessagePack, one item at a time.

use rmp::Marker;

use super::{DecodeError, Number};

/// How deep values may lie in each other where no type bounds it.
const DEPTH_MAX: usize = 32;

/// One item, or the beginning of one that holds others.
#[derive(Debug)]
pub(super) enum Item<'a> {
    Nil,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    List(usize),
    Map(usize),
    /// The type and the bytes of an extension: an unknown value.
    Extension(i8, &'a [u8]),
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::new("there is more behind the value"))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| DecodeError::new("the value is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// An integer of so many bytes.
    fn integer(&mut self, bytes: usize) -> Result<u64> {
        let bytes = self.take(bytes)?.iter();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A signed integer of so many bytes.
    fn signed(&mut self, bytes: usize) -> Result<i64> {
        let unused = 64 - 8 * u32::try_from(bytes).unwrap_or(8);
        Ok((self.integer(bytes)? as i64) << unused >> unused)
    }

    fn length(&mut self, bytes: usize) -> Result<usize> {
        usize::try_from(self.integer(bytes)?).map_err(|_| DecodeError::new("a length is too large"))
    }

    /// A number of items, each of which takes a byte at least.
    fn count(&self, count: usize) -> Result<usize> {
        if count <= self.rest.len() {
            return Ok(count);
        }
        Err(DecodeError::new("the value is cut off"))
    }

    fn str(&mut self, length: usize) -> Result<Item<'a>> {
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes);
        Ok(Item::Text(
            text.map_err(|_| DecodeError::new("a text is not UTF-8"))?,
        ))
    }

    fn extension(&mut self, length: usize) -> Result<Item<'a>> {
        let kind = self.take(1)?[0] as i8;
        Ok(Item::Extension(kind, self.take(length)?))
    }

    fn float(value: f64) -> Result<Item<'a>> {
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| DecodeError::new("a number is not finite"))?;
        Ok(Item::Number(number))
    }

    pub(super) fn next(&mut self) -> Result<Item<'a>> {
        let number = |number: i128| Item::Number(Number::from(number));
        Ok(match Marker::from_u8(self.take(1)?[0]) {
            Marker::Null => Item::Nil,
            Marker::True => Item::Bool(true),
            Marker::False => Item::Bool(false),
            Marker::FixPos(value) => number(value.into()),
            Marker::FixNeg(value) => number(value.into()),
            Marker::U8 => number(self.integer(1)?.into()),
            Marker::U16 => number(self.integer(2)?.into()),
            Marker::U32 => number(self.integer(4)?.into()),
            Marker::U64 => number(self.integer(8)?.into()),
            Marker::I8 => number(self.signed(1)?.into()),
            Marker::I16 => number(self.signed(2)?.into()),
            Marker::I32 => number(self.signed(4)?.into()),
            Marker::I64 => number(self.signed(8)?.into()),
            Marker::F32 => {
                let bits = u32::try_from(self.integer(4)?).unwrap_or_default();
                Self::float(f32::from_bits(bits).into())?
            }
            Marker::F64 => Self::float(f64::from_bits(self.integer(8)?))?,
            Marker::FixStr(length) => self.str(length.into())?,
            Marker::Str8 | Marker::Bin8 => {
                let length = self.length(1)?;
                self.str(length)?
            }
            Marker::Str16 | Marker::Bin16 => {
                let length = self.length(2)?;
                self.str(length)?
            }
            Marker::Str32 | Marker::Bin32 => {
                let length = self.length(4)?;
                self.str(length)?
            }
            Marker::FixArray(count) => Item::List(self.count(count.into())?),
            Marker::Array16 => {
                let count = self.length(2)?;
                Item::List(self.count(count)?)
            }
            Marker::Array32 => {
                let count = self.length(4)?;
                Item::List(self.count(count)?)
            }
            Marker::FixMap(count) => Item::Map(self.count(count.into())?),
            Marker::Map16 => {
                let count = self.length(2)?;
                Item::Map(self.count(count)?)
            }
            Marker::Map32 => {
                let count = self.length(4)?;
                Item::Map(self.count(count)?)
            }
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 => {
                let length = self.length(1)?;
                self.extension(length)?
            }
            Marker::Ext16 => {
                let length = self.length(2)?;
                self.extension(length)?
            }
            Marker::Ext32 => {
                let length = self.length(4)?;
                self.extension(length)?
            }
            Marker::Reserved => return Err(DecodeError::new("a reserved marker")),
        })
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        match self.next()? {
            Item::Bool(value) => Ok(value),
            _ => Err(DecodeError::new("expected a truth value")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        match self.next()? {
            Item::Text(text) => Ok(text.to_owned()),
            _ => Err(DecodeError::new("expected a text")),
        }
    }

    pub(super) fn unsigned(&mut self) -> Result<u64> {
        match self.next()? {
            Item::Number(number) => number.to_u64(),
            _ => None,
        }
        .ok_or_else(|| DecodeError::new("expected a whole number"))
    }

    pub(super) fn map_length(&mut self) -> Result<usize> {
        match self.next()? {
            Item::Map(length) => Ok(length),
            _ => Err(DecodeError::new("expected a map")),
        }
    }

    /// Passes over one item with all that it holds.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_at(0)
    }

    fn skip_at(&mut self, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::new("values lie too deep in each other"));
        }
        let items = match self.next()? {
            Item::List(count) => count,
            Item::Map(count) => 2 * count,
            _ => 0,
        };
        (0..items).try_for_each(|_| self.skip_at(depth + 1))
    }
}
