//! A system on which no worker can be started: [`pair`] says so before anything else is asked.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitStatus;

use tokio::process::{Child, Command};

use super::Prepared;

/// Stands for a socket, of which there is none.
pub(crate) type Stream = Nothing;

/// Stands for a descriptor, of which there is none.
#[derive(Debug)]
pub(crate) enum Inherited {}

/// A stream that nobody can make.
#[derive(Debug)]
pub(crate) enum Nothing {}

impl Nothing {
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn try_io<T>(
        &self,
        _: tokio::io::Interest,
        _: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match *self {}
    }
}

impl tokio::io::AsyncRead for Nothing {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        match *self {}
    }
}

impl tokio::io::AsyncWrite for Nothing {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        match *self {}
    }
}

fn lacking<T>() -> io::Result<T> {
    let text = super::lacking().unwrap_or_default();
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

pub(crate) fn pair() -> io::Result<(Stream, Inherited)> {
    lacking()
}

pub(crate) fn double(stream: &Stream) -> io::Result<Inherited> {
    match *stream {}
}

pub(crate) fn shut(double: &Inherited) {
    match *double {}
}

pub(crate) fn receive(stream: &Stream, _: &mut [u8]) -> io::Result<usize> {
    match *stream {}
}

pub(crate) fn numbers(_: &[Inherited]) -> Vec<String> {
    Vec::new()
}

pub(crate) fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

pub(crate) fn user() -> u32 {
    0
}

pub(crate) fn make_private(_: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

pub(crate) async fn spawn(_: Command, _: Vec<Inherited>, _: Prepared) -> io::Result<Child> {
    lacking()
}

/// How a process is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Ask,
    Kill,
}

/// Stands for a group of processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group(u32);

impl Group {
    pub(crate) fn of(child: &Child) -> Option<Self> {
        child.id().map(Self)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn stop(self, _: Stop) {}
}
