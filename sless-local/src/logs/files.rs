//! The files of the logs: two halves each, the newer of which is written.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use sless_core::{LogLine, Result};

use crate::{error::Fault, points};

pub(super) struct Files {
    folder: PathBuf,
    half: u64,
    open: HashMap<Arc<str>, Open>,
    capacity: usize,
}

struct Open {
    file: BufWriter<File>,
    bytes: u64,
}

impl Files {
    pub(super) fn new(folder: PathBuf, log_bytes: u64, open_files: usize) -> Self {
        Self {
            folder,
            half: (log_bytes / 2).max(1),
            open: HashMap::new(),
            capacity: open_files.max(1),
        }
    }

    pub(super) fn append(&mut self, log: &Arc<str>, line: &LogLine) -> Result<()> {
        let path = self.newer(log);
        let mut text = serde_json::to_vec(line).map_err(|source| Fault::Unwritable {
            what: "log line",
            source,
        })?;
        text.push(b'\n');
        let full = {
            let open = self.file(log)?;
            open.bytes += text.len() as u64;
            open.file
                .write_all(&text)
                .map_err(Fault::io("writing", &path))?;
            open.bytes
        };
        if full >= self.half {
            self.flush();
            self.open.remove(log);
            points::ROTATE_BEFORE.pass();
            fs::rename(&path, self.older(log)).map_err(Fault::io("renaming", &path))?;
            points::ROTATE_AFTER.pass();
        }
        Ok(())
    }

    /// The lines that are kept, oldest first; `None` if there is no such log. A line that was cut off
    /// by a crash is left out.
    pub(super) fn read(&self, log: &str) -> Result<Option<Vec<LogLine>>> {
        let mut lines = None;
        for path in [self.older(log), self.newer(log)] {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Fault::io("reading", &path)(error).into()),
            };
            let lines = lines.get_or_insert_with(Vec::new);
            for line in BufReader::new(file).split(b'\n') {
                let line = line.map_err(Fault::io("reading", &path))?;
                lines.extend(serde_json::from_slice::<LogLine>(&line));
            }
        }
        Ok(lines)
    }

    pub(super) fn remove(&mut self, log: &Arc<str>) -> Result<bool> {
        self.open.remove(log);
        let mut there = false;
        for path in [self.older(log), self.newer(log)] {
            match fs::remove_file(&path) {
                Ok(()) => there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Fault::io("removing", &path)(error).into()),
            }
        }
        Ok(there)
    }

    pub(super) fn flush(&mut self) {
        for (log, open) in &mut self.open {
            if let Err(error) = open.file.flush() {
                tracing::warn!(%log, %error, "log lines were not written");
            }
        }
    }

    fn file(&mut self, log: &Arc<str>) -> Result<&mut Open> {
        if !self.open.contains_key(log) {
            if self.open.len() >= self.capacity {
                // All at once, and rarely: files of functions that write are opened again.
                self.flush();
                self.open.clear();
            }
            let path = self.newer(log);
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            let file = opened.map_err(Fault::io("opening", &path))?;
            let bytes = file.metadata().map_err(Fault::io("reading", &path))?.len();
            let mut file = BufWriter::new(file);
            if bytes > 0 {
                // Ends a line that a crash may have cut off; empty ones are not read.
                file.write_all(b"\n").map_err(Fault::io("writing", &path))?;
            }
            self.open.insert(log.clone(), Open { file, bytes });
        }
        self.open
            .get_mut(log)
            .ok_or_else(|| sless_core::Error::internal("a log was not opened"))
    }

    fn newer(&self, log: &str) -> PathBuf {
        Path::new(&self.folder).join(format!("{log}.jsonl"))
    }

    fn older(&self, log: &str) -> PathBuf {
        Path::new(&self.folder).join(format!("{log}.1.jsonl"))
    }
}

/// The names of the logs in a folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(Fault::io("reading", folder))? {
        let file = entry.map_err(Fault::io("reading", folder))?.file_name();
        let file = file.to_string_lossy();
        if let Some(log) = file.strip_suffix(".jsonl") {
            names.insert(log.strip_suffix(".1").unwrap_or(log).to_owned());
        }
    }
    Ok(names.into_iter().collect())
}
