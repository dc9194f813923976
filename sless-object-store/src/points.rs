//! The fault points of a storage.

sless_core::fault_points! {
    /// Nothing of a body is written.
    WRITE_BEFORE = "storage.write.before";
    /// A part of a long body is written, beside its place.
    WRITE_PART = "storage.write.part";
    /// All of a long body is written, and not in its place.
    WRITE_WHOLE = "storage.write.whole";
    /// A body is in its place, and whoever put it does not know.
    WRITE_AFTER = "storage.write.after";
    /// An object is to be removed.
    DELETE_BEFORE = "storage.delete.before";
    /// It is removed.
    DELETE_AFTER = "storage.delete.after";
}
