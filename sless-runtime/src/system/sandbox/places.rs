//! Which paths a confined process sees, and what it may do there.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// What may be done below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// Read, list, execute.
    Read,
    /// A device that anybody may read and write.
    Device,
    /// All that files and folders allow.
    Write,
}

/// A path, and what may be done there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path itself, without links.
    pub(super) source: PathBuf,
    /// Where the process finds it.
    pub(super) target: PathBuf,
    pub(super) access: Access,
}

/// What programs of any kind are made of. What is not there is left out.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates/extracted",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
];

/// What runtimes ask of `/proc` about the machine.
pub(super) const MACHINE: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/vm/overcommit_memory",
];

const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// What a process is made of, beside the system.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    /// Programs whose installations may be read.
    pub(super) programs: Vec<PathBuf>,
    /// Must be there.
    pub(super) read: Vec<&'a Path>,
    /// Must be there.
    pub(super) write: Vec<&'a Path>,
}

/// All places, those that hold others first. An error says what is not there.
pub(super) fn places(parts: &Parts<'_>) -> Result<Vec<Place>, String> {
    let mut places = Vec::new();
    for path in SYSTEM.iter().chain(MACHINE) {
        places.extend(named(Path::new(path), Access::Read));
    }
    for path in DEVICES {
        places.extend(named(Path::new(path), Access::Device));
    }
    for program in &parts.programs {
        for path in installation(program) {
            places.extend(named(&path, Access::Read));
        }
    }
    let given = [(&parts.read, Access::Read), (&parts.write, Access::Write)];
    for (paths, access) in given {
        for path in paths {
            let found = named(path, access);
            if found.is_empty() {
                return Err(format!("{} is not there", path.display()));
            }
            places.extend(found);
        }
    }
    places.sort_by_key(|place| (place.target.components().count(), place.target.clone()));
    let mut kept: Vec<Place> = Vec::new();
    for place in places {
        let known = kept.iter().any(|other| {
            let below = place.target.strip_prefix(&other.target);
            other.access == place.access
                && below.is_ok_and(|below| other.source.join(below) == place.source)
        });
        if !known {
            kept.push(place);
        }
    }
    Ok(kept)
}

/// A path under the name that it is called by and, where that leads over links, under its own.
fn named(path: &Path, access: Access) -> Vec<Place> {
    let Ok(source) = fs::canonicalize(path) else {
        return Vec::new();
    };
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    let mut targets: Vec<PathBuf> = vec![source.clone()];
    if plain {
        targets.push(path.components().collect());
        targets.dedup();
    }
    let place = |target| Place {
        source: source.clone(),
        target,
        access,
    };
    targets.into_iter().map(place).collect()
}

/// Where a program, and what belongs to it, is installed: `bin` and `lib` beside each other, under the
/// name that it is called by and, where that is a link, under its own.
fn installation(program: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut names = vec![program.to_owned()];
    names.extend(fs::canonicalize(program));
    for name in names {
        let Some(folder) = name.parent() else {
            continue;
        };
        paths.push(folder.to_owned());
        if let Some(prefix) = folder.parent().filter(|_| folder.ends_with("bin")) {
            paths.extend(["lib", "lib64", "libexec", "pyvenv.cfg"].map(|name| prefix.join(name)));
        }
    }
    paths
}

/// A path as the kernel takes it. No path has a zero byte.
pub(super) fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_lies_in_another_place_is_no_place_of_its_own() {
        let parts = Parts {
            programs: vec!["/usr/bin/env".into()],
            ..Parts::default()
        };
        let places = places(&parts).unwrap();
        let below =
            |place: &Place| place.target.starts_with("/usr") && place.target != Path::new("/usr");
        assert!(!places.iter().any(below), "{places:?}");
        assert!(places.iter().any(|place| place.target == Path::new("/usr")));
        for secret in [
            "/etc",
            "/etc/shadow",
            "/proc",
            "/root",
            "/home",
            "/var",
            "/run",
        ] {
            assert!(
                !places.iter().any(|place| place.target == Path::new(secret)),
                "{secret}"
            );
        }
    }

    #[test]
    fn a_linked_program_brings_both_of_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real/bin/tool");
        let linked = folder.path().join("linked/bin/tool");
        for path in [&real, &linked] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::create_dir(folder.path().join("real/lib")).unwrap();
        fs::write(&real, "").unwrap();
        symlink(&real, &linked).unwrap();
        let parts = Parts {
            programs: vec![linked],
            ..Parts::default()
        };
        let places = places(&parts).unwrap();
        for path in ["real/bin", "real/lib", "linked/bin"] {
            let path = folder.path().join(path);
            assert!(
                places.iter().any(|place| place.target == path),
                "{}",
                path.display()
            );
        }
        assert!(
            !places
                .iter()
                .any(|place| place.target == folder.path().join("real"))
        );
    }

    #[test]
    fn what_was_asked_for_must_be_there() {
        let missing = Path::new("/nothing/of/that/name");
        let parts = Parts {
            read: vec![missing],
            ..Parts::default()
        };
        let error = places(&parts).unwrap_err();
        assert!(error.contains("/nothing/of/that/name"), "{error}");
    }
}
