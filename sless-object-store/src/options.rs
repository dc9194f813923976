//! [`ObjectStoreOptions`].

/// What a store can do, and the limits of an [`ObjectStoreStorage`](crate::ObjectStoreStorage).
///
/// The defaults are safe on any store. What a store does not keep to, the suite
/// `sless_conformance::storage!` finds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStoreOptions {
    /// The name of the backend in errors.
    pub backend: &'static str,
    /// The longest object, in bytes.
    pub object_bytes: u64,
    /// How many bytes of a body are held in memory before they are sent. A body of no more is one
    /// request, a longer one is sent in parts of this size; most stores on the network want at least
    /// 5 MiB.
    pub part_bytes: usize,
    /// The most objects of one listing: they are put in order in memory.
    pub list_objects: usize,
    /// Whether the store can refuse to replace an object, with one winner among several writers. Not
    /// all that `object_store` reaches can.
    pub if_absent: bool,
    /// Whether the store keeps media types.
    pub content_type: bool,
    /// Whether times are cut to whole seconds. HTTP tells the time of an object in seconds, while
    /// listings of some stores have fractions: the same object would have two times.
    pub whole_seconds: bool,
}

impl Default for ObjectStoreOptions {
    fn default() -> Self {
        Self {
            backend: "object_store",
            object_bytes: 1 << 30,
            part_bytes: 5 << 20,
            list_objects: 1_000_000,
            if_absent: false,
            content_type: false,
            whole_seconds: true,
        }
    }
}
