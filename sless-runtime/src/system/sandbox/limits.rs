//! Limits of one process, which all that it starts inherits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::sandbox::Confinement;

/// Memory beside the heap that a limit on the heap leaves to Node: its stacks, its code, its buffers.
const BESIDE_HEAP: u64 = 512 << 20;

/// Made before the fork, set after it.
#[derive(Debug, Default)]
pub(super) struct Limits(Vec<(Resource, u64)>);

/// How the memory of a process is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// All that it maps, in bytes.
    AddressSpace(u64),
    /// Its heap bounds itself to so many bytes. What it maps is far more than what it uses.
    Heap(u64),
    /// Nobody says.
    Unsaid,
}

impl Limits {
    /// Of a process that is not confined.
    pub(super) fn plain(memory: Memory) -> Self {
        match memory {
            Memory::AddressSpace(bytes) => Self(vec![(Resource::As, bytes)]),
            Memory::Heap(_) | Memory::Unsaid => Self::default(),
        }
    }

    /// `apart` says whether the process is in a user namespace of its own: elsewhere the kernel counts all
    /// processes of the user together.
    pub(super) fn confined(memory: Memory, confinement: &Confinement, apart: bool) -> Self {
        let memory = match memory {
            Memory::AddressSpace(bytes) => (Resource::As, bytes),
            Memory::Heap(bytes) => (Resource::Data, bytes.saturating_add(BESIDE_HEAP)),
            Memory::Unsaid => (Resource::Data, unsaid(confinement)),
        };
        let mut limits = vec![
            memory,
            (Resource::Core, 0),
            (Resource::Fsize, confinement.file_bytes),
            (Resource::Nofile, confinement.open_files),
            (Resource::Memlock, 8 << 20),
            (Resource::Rtprio, 0),
            // Who was put behind the others stays there.
            (Resource::Nice, 0),
        ];
        if apart {
            limits.push((Resource::Nproc, u64::from(confinement.processes)));
        }
        Self(limits)
    }

    /// Called in the child. A limit that is lower already stays.
    pub(super) fn enter(&self) -> io::Result<()> {
        for &(resource, bytes) in &self.0 {
            let now = getrlimit(resource);
            let least = |now: Option<u64>| Some(now.map_or(bytes, |now| now.min(bytes)));
            let limit = Rlimit {
                current: least(now.maximum),
                maximum: least(now.maximum),
            };
            setrlimit(resource, limit)?;
        }
        Ok(())
    }
}

/// The memory of a process of which nobody has said how much it may have, in bytes.
pub(super) fn unsaid(confinement: &Confinement) -> u64 {
    let whole = || {
        let info = rustix::system::sysinfo();
        #[allow(clippy::useless_conversion, reason = "it has 32 bits on some machines")]
        u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit))
    };
    confinement.memory_bytes.unwrap_or_else(|| whole() / 2)
}
