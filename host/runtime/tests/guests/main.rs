//! Every test of the runtime, over the components of `guest-examples`. One binary, because each
//! one links wasmtime.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod answers;
mod binary;
mod hostile;
mod limits;
mod loading;
mod pool;
mod sending;
mod support;
mod time;
mod warm;
