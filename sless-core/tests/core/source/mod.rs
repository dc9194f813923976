//! Source handling: zips in, contexts out.

mod context;
mod forge;
mod properties;
mod readers;
mod tree;
mod zip_cases;
mod zip_rules;
