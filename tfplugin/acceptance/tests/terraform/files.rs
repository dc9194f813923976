//! A workspace for the provider that keeps objects as files.

use std::{
    fs,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
};

use tfplugin_acceptance::Workspace;

pub(crate) struct Files(Workspace);

impl Files {
    pub(crate) fn new() -> Self {
        let binary = env!("CARGO_BIN_EXE_terraform-provider-files");
        let mut workspace = Workspace::new("files", Path::new(binary));
        workspace.settings(&format!("folder = {:?}", workspace.path("store")));
        Self(workspace)
    }

    /// One object of this configuration.
    pub(crate) fn object(&self, body: &str) {
        self.config(&format!("resource \"files_object\" \"o\" {{\n{body}\n}}"));
    }

    /// The files in the store.
    pub(crate) fn stored(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("store")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn until_stored(&self) {
        self.until("something is stored", || !self.stored().is_empty());
    }
}

impl Deref for Files {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.0
    }
}

impl DerefMut for Files {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.0
    }
}
