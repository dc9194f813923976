//! What is printed: where it was measured, and tables.

use std::{fmt::Write as _, path::Path, process::Command};

use procfs::Current as _;

/// A figure over several rounds.
#[derive(Clone, Debug, Default)]
pub struct Spread(Vec<f64>);

impl Spread {
    /// Takes note of one round.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The value in the middle; of an even number of them, between the two there.
    pub fn median(&self) -> Option<f64> {
        let middle = self.0.len() / 2;
        let upper = self.0.get(middle)?;
        if self.0.len() % 2 == 1 {
            return Some(*upper);
        }
        Some(f64::midpoint(self.0[middle - 1], *upper))
    }

    /// `median (min–max)`.
    pub fn show(&self, digits: usize) -> String {
        let Some(median) = self.median() else {
            return "–".to_owned();
        };
        match self.0.as_slice() {
            [first, .., last] => format!("{median:.digits$} ({first:.digits$}–{last:.digits$})"),
            _ => format!("{median:.digits$}"),
        }
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut all: Vec<f64> = values.into_iter().collect();
        all.sort_by(f64::total_cmp);
        Self(all)
    }
}

/// A table in Markdown, so that it can be kept as it is.
#[derive(Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with this head.
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        Self(vec![head.map(str::to_owned).to_vec()])
    }

    /// One line more.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.0.push(cells.map(str::to_owned).to_vec());
    }

    /// In Markdown.
    pub fn show(&self) -> String {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.0.iter().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string cannot fail.
                let _ = write!(text, "| {cell:width$} ");
            }
            text.push_str("|\n");
            if number == 0 {
                for width in &widths {
                    let _ = write!(text, "|{:-<1$}", "", width + 2);
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

/// The load of the machine over the last minute, in processes that want to run.
pub fn busy() -> f64 {
    procfs::LoadAverage::current().map_or(0.0, |load| f64::from(load.one))
}

/// What was measured where, in lines.
pub fn machine(cores: &str) -> String {
    let kernel = procfs::sys::kernel::Version::current().map_or("?".to_owned(), |version| {
        format!("{}.{}", version.major, version.minor)
    });
    let profile = if cfg!(debug_assertions) {
        "debug build"
    } else {
        "release build"
    };
    format!(
        "sless {} ({profile}); {}; Node {}; Linux {kernel}; {cores}; load before: {:.1}",
        env!("CARGO_PKG_VERSION"),
        version(Path::new("python3.11")),
        version(Path::new("node")),
        busy(),
    )
}

/// The processor, the memory and the kernel, in a line.
pub fn hardware() -> String {
    let model = procfs::CpuInfo::current().ok();
    let model = model.and_then(|info| info.model_name(0).map(str::to_owned));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = procfs::Meminfo::current().map_or(0, |memory| memory.mem_total >> 30);
    format!(
        "{}, {memory} GiB of memory, Linux {}",
        model.as_deref().unwrap_or("an unknown processor"),
        release.trim()
    )
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| format!("no {}", program.display()))
}
