//! What a worker says on a slot, read out of whatever bytes have come so far.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::HandlerError;
use crate::frame::{self, BadHead, Header, Malformed, ResponseHead};

/// Room for an answer of usual size.
const SMALL_READ: usize = 4 * 1024;
/// Room for the frames of a stream.
const LARGE_READ: usize = 128 * 1024;

/// The answer of one call after the other.
#[derive(Debug)]
pub(crate) struct Answer {
    input: BytesMut,
    /// Bytes of the current frame that have not been given yet, and whether it is the last.
    frame_left: usize,
    frame_ends: bool,
    max_head: usize,
    /// The answer has been ended.
    pub(crate) got_end: bool,
    /// The answer's end said that the call has written lines.
    pub(crate) logged: bool,
}

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Said {
    Head {
        head: Result<ResponseHead, BadHead>,
        is_error: bool,
        /// The body's length, where the frame holds all of it.
        length: Option<usize>,
    },
    Data(Bytes),
    End,
    Fail(HandlerError),
}

impl Answer {
    pub(crate) fn new(max_head: usize) -> Self {
        Self {
            input: BytesMut::new(),
            frame_left: 0,
            frame_ends: false,
            max_head,
            got_end: true,
            logged: false,
        }
    }

    /// The next call has begun.
    pub(crate) fn begin(&mut self) {
        self.got_end = false;
        self.frame_left = 0;
        self.frame_ends = false;
        self.logged = false;
    }

    /// Whether the answer has ended and nothing came behind it.
    pub(crate) fn is_clean(&self) -> bool {
        self.got_end && self.input.is_empty()
    }

    /// Where the next bytes go.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        self.input.reserve(if self.frame_left > 0 {
            LARGE_READ
        } else {
            SMALL_READ
        });
        &mut self.input
    }

    /// The next part, or `None` while too little of it has come.
    pub(crate) fn take(&mut self) -> Result<Option<Said>, Malformed> {
        // A loop, since a worker may send any number of frames without a byte in them.
        loop {
            if self.frame_left > 0 {
                if self.input.is_empty() {
                    return Ok(None);
                }
                let length = self.frame_left.min(self.input.len());
                self.frame_left -= length;
                return Ok(Some(Said::Data(self.input.split_to(length).freeze())));
            }
            if self.frame_ends {
                self.frame_ends = false;
                self.got_end = true;
                return Ok(Some(Said::End));
            }
            let Some(header) = Header::peek(&self.input)? else {
                return Ok(None);
            };
            if header.flags & frame::LOGGED != 0 {
                self.logged = true;
            }
            match header.kind {
                frame::DATA => {
                    self.input.advance(frame::HEADER);
                    self.frame_left = header.length;
                    self.frame_ends = header.ends();
                }
                frame::RESPONSE => return self.take_head(header),
                frame::FAIL => return self.take_failure(header),
                _ => return Err(Malformed("a frame of an unknown kind")),
            }
        }
    }

    fn take_failure(&mut self, header: Header) -> Result<Option<Said>, Malformed> {
        if header.length > self.max_head {
            return Err(Malformed("an error longer than max_response_head_bytes"));
        }
        let Some((_, payload)) = frame::take_frame(&mut self.input, self.max_head)? else {
            return Ok(None);
        };
        self.got_end = true;
        let (kind, message) = frame::word_and_rest(&payload)?;
        Ok(Some(Said::Fail(HandlerError { kind, message })))
    }

    fn take_head(&mut self, header: Header) -> Result<Option<Said>, Malformed> {
        const FIXED: usize = frame::HEADER + frame::RESPONSE_FIXED;
        if header.length < frame::RESPONSE_FIXED {
            return Err(Malformed("a cut response"));
        }
        if self.input.len() < FIXED {
            return Ok(None);
        }
        let mut fixed = &self.input[frame::HEADER..FIXED];
        let (status, media, _) = (fixed.get_u16(), fixed.get_u8(), fixed.get_u8());
        let headers = fixed.get_u32() as usize;
        if headers > self.max_head {
            return Err(Malformed("headers longer than max_response_head_bytes"));
        }
        let Some(body) = (header.length - frame::RESPONSE_FIXED).checked_sub(headers) else {
            return Err(Malformed("headers longer than their frame"));
        };
        if self.input.len() < FIXED + headers {
            return Ok(None);
        }
        let head = frame::response_head(status, media, &self.input[FIXED..FIXED + headers])?;
        self.input.advance(FIXED + headers);
        self.frame_left = body;
        self.frame_ends = header.ends();
        let length = header.ends().then_some(body);
        Ok(Some(Said::Head {
            head,
            is_error: header.flags & frame::ERROR != 0,
            length,
        }))
    }

    /// The whole body of the answer, if it has already been read.
    pub(crate) fn take_whole_body(&mut self) -> Option<Bytes> {
        if !self.frame_ends || self.input.len() < self.frame_left {
            return None;
        }
        let body = self.input.split_to(self.frame_left).freeze();
        self.frame_left = 0;
        self.frame_ends = false;
        self.got_end = true;
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hostile worker may send them without end: each level of a recursion would cost stack.
    #[test]
    fn any_number_of_empty_frames_is_passed_over() {
        let mut answer = Answer::new(1024);
        answer.begin();
        let empty = [frame::VERSION, frame::DATA, 0, 0, 0, 0, 0, 0];
        answer.room().extend_from_slice(&empty.repeat(1_000_000));
        assert!(matches!(answer.take(), Ok(None)));
        assert!(!answer.got_end && answer.input.is_empty());
    }
}
