//! Builders of images.

mod layer;

pub use layer::{LayerBuilder, LayerBuilderConfig};
