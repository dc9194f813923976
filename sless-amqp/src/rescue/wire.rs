//! The few methods of AMQP 0-9-1 that take messages from a queue without reading them.
//!
//! Numbers of classes and methods are those of the specification's section 1.

use std::io::{Error, ErrorKind, Result};

use futures::{
    AsyncReadExt as _, AsyncWriteExt as _,
    io::{AsyncRead, AsyncWrite},
};
use lapin::{
    tcp::{AMQPUriTcpExt as _, OwnedTLSConfig},
    uri::AMQPUri,
};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xce;

/// The longest frame that is read, in bytes: what brokers agree to by themselves.
const FRAME_BYTES: u32 = 128 << 10;

/// The longest body that is read, in bytes: the longest that a broker takes.
const BODY_BYTES: u64 = 512 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection with one channel.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
}

/// A message as it came.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) tag: u64,
    pub(super) exchange: Vec<u8>,
    pub(super) key: Vec<u8>,
    /// The flags of the properties, and the properties.
    pub(super) properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}

struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl Wire {
    /// Connects and opens channel 1.
    pub(super) async fn connect(uri: &AMQPUri, authorities: Option<String>) -> Result<Self> {
        let tls = OwnedTLSConfig {
            identity: None,
            cert_chain: authorities,
        };
        let runtime = lapin::runtime::default_runtime().map_err(Error::other)?;
        let stream = uri
            .connect_with_config_async(tls.as_ref(), &runtime)
            .await?;
        let mut wire = Self {
            stream: Box::new(stream),
        };
        wire.stream.write_all(b"AMQP\0\0\x09\x01").await?;
        wire.expect(10, 10).await?;
        let user = &uri.authority.userinfo;
        let answer = format!("\0{}\0{}", user.username, user.password);
        let start_ok = Method::new(10, 11)
            .long(b"")
            .short(b"PLAIN")?
            .long(answer.as_bytes())
            .short(b"en_US")?;
        wire.send(0, start_ok).await?;
        let tune = wire.expect(10, 30).await?;
        let mut tune = Reader(&tune[4..]);
        let (channels, frame) = (tune.u16()?, tune.u32()?);
        let frame = if frame == 0 {
            FRAME_BYTES
        } else {
            frame.min(FRAME_BYTES)
        };
        // No heartbeats: this takes seconds.
        let tune_ok = Method::new(10, 31).u16(channels).u32(frame).u16(0);
        wire.send(0, tune_ok).await?;
        let open = Method::new(10, 40)
            .short(uri.vhost.as_bytes())?
            .short(b"")?
            .u8(0);
        wire.send(0, open).await?;
        wire.expect(10, 41).await?;
        wire.send(1, Method::new(20, 10).short(b"")?).await?;
        wire.expect(20, 11).await?;
        Ok(wire)
    }

    /// Takes a message, without acknowledging it; `None` where there is none.
    pub(super) async fn get(&mut self, queue: &str) -> Result<Option<Got>> {
        let get = Method::new(60, 70).u16(0).short(queue.as_bytes())?.u8(0);
        self.send(1, get).await?;
        let answer = self.method().await?;
        match method_of(&answer)? {
            (60, 71) => {}
            (60, 72) => return Ok(None),
            other => return Err(unexpected(other)),
        }
        let mut answer = Reader(&answer[4..]);
        let tag = answer.u64()?;
        answer.take(1)?;
        let (exchange, key) = (answer.short()?.to_vec(), answer.short()?.to_vec());
        let header = self.frame(HEADER).await?;
        let mut header = Reader(&header);
        header.take(4)?;
        let length = header.u64()?;
        if length > BODY_BYTES {
            return Err(Error::other(
                "a body is longer than any that a broker takes",
            ));
        }
        let properties = header.0.to_vec();
        let mut body = Vec::new();
        while (body.len() as u64) < length {
            body.extend(self.frame(BODY).await?);
        }
        Ok(Some(Got {
            tag,
            exchange,
            key,
            properties,
            body,
        }))
    }

    pub(super) async fn ack(&mut self, tag: u64) -> Result<()> {
        self.send(1, Method::new(60, 80).u64(tag).u8(0)).await
    }

    /// Gives back what was taken and not acknowledged, and ends the connection.
    pub(super) async fn close(mut self) -> Result<()> {
        // All of them, and back to the queue.
        self.send(1, Method::new(60, 120).u64(0).u8(0b11)).await?;
        let close = Method::new(10, 50).u16(200).short(b"OK")?.u16(0).u16(0);
        self.send(0, close).await?;
        self.expect(10, 51).await?;
        self.stream.close().await
    }

    async fn expect(&mut self, class: u16, method: u16) -> Result<Vec<u8>> {
        let payload = self.method().await?;
        match method_of(&payload)? {
            found if found == (class, method) => Ok(payload),
            other => Err(unexpected(other)),
        }
    }

    async fn method(&mut self) -> Result<Vec<u8>> {
        self.frame(METHOD).await
    }

    /// The payload of the next frame of this kind; heartbeats are passed over.
    async fn frame(&mut self, kind: u8) -> Result<Vec<u8>> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind {
                return Ok(frame.payload);
            }
            if frame.kind != 8 {
                return Err(Error::new(ErrorKind::InvalidData, "an unexpected frame"));
            }
        }
    }

    async fn next(&mut self) -> Result<Frame> {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        if length > FRAME_BYTES {
            return Err(Error::new(ErrorKind::InvalidData, "a frame is too long"));
        }
        let mut payload = vec![0; length as usize + 1];
        self.stream.read_exact(&mut payload).await?;
        if payload.pop() != Some(END) {
            return Err(Error::new(ErrorKind::InvalidData, "a frame has no end"));
        }
        Ok(Frame {
            kind: head[0],
            payload,
        })
    }

    async fn send(&mut self, channel: u16, method: Method) -> Result<()> {
        self.send_frame(METHOD, channel, &method.0).await
    }

    async fn send_frame(&mut self, kind: u8, channel: u16, payload: &[u8]) -> Result<()> {
        let length = u32::try_from(payload.len()).map_err(Error::other)?;
        let mut frame = vec![kind];
        frame.extend(channel.to_be_bytes());
        frame.extend(length.to_be_bytes());
        frame.extend(payload);
        frame.push(END);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }

    /// Publishes a message of one frame with these properties, whatever they are.
    #[cfg(test)]
    pub(super) async fn put(&mut self, queue: &str, properties: &[u8], body: &[u8]) -> Result<()> {
        let publish = Method::new(60, 40)
            .u16(0)
            .short(b"")?
            .short(queue.as_bytes())?
            .u8(0);
        self.send(1, publish).await?;
        let mut header = Method::new(60, 0).u64(body.len() as u64).0;
        header.extend(properties);
        self.send_frame(HEADER, 1, &header).await?;
        self.send_frame(BODY, 1, body).await
    }
}

fn method_of(payload: &[u8]) -> Result<(u16, u16)> {
    let mut reader = Reader(payload);
    Ok((reader.u16()?, reader.u16()?))
}

fn unexpected((class, method): (u16, u16)) -> Error {
    Error::new(
        ErrorKind::InvalidData,
        format!("the broker answered with method {method} of class {class}"),
    )
}

struct Method(Vec<u8>);

impl Method {
    fn new(class: u16, method: u16) -> Self {
        Self(Vec::new()).u16(class).u16(method)
    }

    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn short(self, text: &[u8]) -> Result<Self> {
        let length = u8::try_from(text.len()).map_err(Error::other)?;
        let mut with = self.u8(length);
        with.0.extend(text);
        Ok(with)
    }

    fn long(self, bytes: &[u8]) -> Self {
        let mut with = self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        with.0.extend(bytes);
        with
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "a frame ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(Error::other)
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn short(&mut self) -> Result<&'a [u8]> {
        let length = self.array::<1>()?[0];
        self.take(length.into())
    }
}
