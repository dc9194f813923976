//! Terraform itself against a provider made with `tfplugin`.

#![allow(clippy::unwrap_used)]

mod ends;
mod files;
mod life;
mod values;
