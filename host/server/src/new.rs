//! `windlass new`: the folder of a new consumer.
//!
//! Owns what such a folder holds and how it comes into being: all of it or nothing. The files are
//! in the binary, so that it needs neither this repository nor a network.

mod folder;
mod lockfile;
mod name;
mod template;
#[cfg(test)]
mod tests;
mod toolchain;

pub(crate) use folder::make;
pub(crate) use name::ProjectName;
pub(crate) use template::{File, Lang, Template};
pub(crate) use toolchain::missing_steps;
